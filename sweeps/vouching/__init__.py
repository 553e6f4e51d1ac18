"""Whether new code trains the same weights as recorded code: one finished trial is trained again and compared.

``retrial`` trains it in a temporary folder, ``candidates`` says which trials this machine can repeat, ``comparison``
compares, and ``voucher`` records that both versions count as one.
"""
