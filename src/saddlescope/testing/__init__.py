"""Conformance checks for systems; shipped, so that an outside system can be checked too."""
