"""One page about a file of profiles, for somebody who must say yes or no to it. Pure: the command reads and writes."""
