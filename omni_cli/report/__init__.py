"""Something to look at: an HTML page of an output folder, or of two side by side, and contact sheets.

    manifest rows ──> reported_outputs: one entry per output ──┬─> thumbnails: a JPEG per file, kept between reports
                                                               ├─> run_figures: overlap of forwards and outputs
    rows of another folder ──> output_pairs: by id, else words ┴─> html_page: index.html, its data escaped JSON
    manifest rows ──> contact_sheet: a picture, or a grid video

Nothing is locked, rendered or sent over a network. Every text of a row is foreign: it reaches the page as JSON in a
data block, and the document as text, never as markup.
"""

from omni_cli.report.html_page import WrittenReport, default_page, is_report_file, write_report

__all__ = ["WrittenReport", "default_page", "is_report_file", "write_report"]
