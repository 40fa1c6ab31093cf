"""Tables of documents."""


def percent(share):
    return f"{100 * share:.0f} %"


def markdown(table):
    head, *rows = table
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def replace(text, name, part):
    """Replaces the part between the marks in the document."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, rest = text.split(begin)
    return f"{before}{begin}\n{part}\n{end}{rest.split(end)[1]}"
