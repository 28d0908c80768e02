"""What a delivery costs: the hall beside a plain relay and nats-server. See README.md in this folder."""
