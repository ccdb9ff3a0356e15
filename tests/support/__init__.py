"""Helpers of the tests: servers, clients, sample data and pages."""
