"""One partition of records that each wait 200 ms: how many coroutines run at once, and what each record costs."""
