"""The queue in front of each upstream: who asks it next, where more would than it is asked at once."""
