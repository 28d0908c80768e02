"""Several nodes that are one hall: which nodes there are, which agents they have, which node is home to a channel.

Nothing here opens a socket. The bus between the nodes is handed in (`bus.py`).
"""
