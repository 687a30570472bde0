"""Two objects side by side: what they are made of, and where they differ.

`walk` compares them, by what each is made of (`parts`, `attributes`, `held`), in words (`texts`).
"""
