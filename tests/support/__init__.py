"""What the tests share: servers, clients, samples and pages."""
