"""The broker: the one process that holds values, and the upstream half of every inspected request.

::

    agent -- bytes --> supervisor --- decided request, placeholders ---> broker --- TLS, values ---> host
                       (parses, decides,      over a socket pair          (checks the binding
                        records)                                           again, substitutes,
    agent <-- bytes -- supervisor <-- redacted answer, outcome ---------   sends, redacts)

The process that parses what a hostile agent sends never holds a value; the process that holds values parses
only frames of its own parent, and the answers of hosts that the profile names.
"""

__all__: tuple[str, ...] = ()
