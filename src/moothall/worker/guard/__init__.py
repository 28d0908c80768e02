"""The guard: a program that runs one command within limits, and leaves no process of it behind.

Two processes do the work. The **guard** reads the output, counts and decides. Its child, the **keeper**, starts the
command. Both adopt orphans: the kernel hands orphans of the command to the keeper, and to the guard when the keeper
dies. So each process of the command stays below one of the two, in whatever session it is.

| what ends          | who notices, and how                         | what ends the rest            |
|--------------------|----------------------------------------------|-------------------------------|
| the command        | keeper: SIGCHLD, then a report to the guard  | SIGTERM, cooldown, SIGKILL    |
| the guard          | keeper: its pipe of orders reaches its end   | SIGKILL at once               |
| the keeper         | guard: the pipe of reports reaches its end   | SIGKILL at once               |
| the guard's parent | guard: the pipe `--lifeline` reaches its end | SIGTERM, cooldown, SIGKILL    |

A pipe reaches its end whatever a process dies of, and needs neither a timer nor a process id that could be reused.
"""
