"""The nouns that every other room speaks in. Imports nothing of saddlescope outside itself, and no heavy library."""
