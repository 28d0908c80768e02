"""The bus between the nodes of one hall, over NATS. `nats_bus.py` is what the hall gets. It needs nats-py."""
