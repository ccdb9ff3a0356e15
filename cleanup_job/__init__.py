"""The cleanup job: keeps the recordings' disk use in bounds."""
