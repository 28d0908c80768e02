"""Archives and transfers: how files travel between agents."""
