"""The plan: every choice made, every number resolved, every budget added up."""
