"""A crew: several agents from one file, each in a container or as a process, and the hall where they meet."""
