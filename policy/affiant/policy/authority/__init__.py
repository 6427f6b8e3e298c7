"""What an agent may do, and who may do something: `can` and `who-can`."""
