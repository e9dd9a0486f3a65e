"""Ranks that are stages of a pipeline, described by letters."""

from case_factory import Sheet


def stage(letters, ahead=None, behind=None, steps=4, **forward):
    """A rank's steps: F forward, B backward, s and r a message to and from the stage ahead, S and R behind."""
    sheet = Sheet()
    for _ in range(steps):
        for letter in letters:
            if letter == "F":
                sheet.forward(wrapper=-1, **forward)
            elif letter == "B":
                sheet.backward()
            else:
                operation = "send" if letter in "sS" else "recv"
                peer = ahead if letter in "sr" else behind
                sheet.collective(operation, peer=peer, line=f"dist.{operation}(tensor, {peer})")
        sheet.step()
    return sheet
