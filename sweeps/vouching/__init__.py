"""Whether new code trains the same weights as recorded code: one finished trial is trained again
and compared.

``candidates`` says which trials this machine can repeat, ``retrial`` trains one in a temporary
folder, ``comparison`` compares the results, and ``voucher`` records that both versions of the code
count as one.
"""
