"""A chat template with tools, for a small model whose own has none."""

TEMPLATE = """{%- for message in messages %}
{%- if loop.first and tools %}
{{- '<|im_start|>system\\nTools: ' ~ tools | tojson ~ '<|im_end|>\\n' }}
{%- endif %}
{{- '<|im_start|>' ~ message.role ~ '\\n' }}
{%- if message.content %}{{ message.content }}{% endif %}
{%- for call in message.tool_calls or [] %}
{{- '<tool_call>' ~ call.function | tojson ~ '</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
