"""Services of one machine: state folder, platform, gateway, and the processes of each session."""
