"""Log records of Grete: the default handler, the form of errors, and the lock that forks wait for."""
