"""Which layers get another dtype policy, how, and what that changes."""
