"""Programs for those who work on moothall: what builds the package, and what generates its reference pages."""
