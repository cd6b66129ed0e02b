"""`grete web`: pages that show what Apps do, from the reports that they write to Kafka.

Nothing here is imported with `import grete`. Starlette, uvicorn and Jinja2 come with the extra `grete[web]`.
"""
