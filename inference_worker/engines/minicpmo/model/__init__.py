"""The network: torch modules only, named as the checkpoint names them."""
