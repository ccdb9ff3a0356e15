"""The Redis contract: every key, script and command of the pipeline. Nothing else imports `redis`."""
