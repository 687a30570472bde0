"""Which calls and layers of two graphs belong together.

`align` is the entrance. `nodes` puts the calls of a graph in an order that structure decides,
and `facts` and `items` say what tells them apart. `pairing` pairs them: in order at the least
cost (`sequence`), then by trial (`shortening`), counting the `lines` of a diff that a pairing
leads to; `partners` are the pairs so far. `opening` decides which nested models are opened.
"""
