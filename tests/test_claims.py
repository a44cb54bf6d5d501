"""What results, reports and gates claim: no more than the rows say.

Each test is named by the number of a fault that use has found, and by what the user saw. Sections
have no order between them.
"""

from __future__ import annotations


# --- An error of zero is no error (1 to 4) -------------------------------------------------------

# --- Rows that leave unseen: null scores and NaN (5, 6) ------------------------------------------

# --- Rows that leave unseen: counts of dropped rows, empty sources (7, 10) -----------------------

# --- TREC queries without results, zeros that hide a mistake (8, 9) ------------------------------

# --- Gates (11 to 14) ----------------------------------------------------------------------------

# --- Nights (3, 15 to 17) ------------------------------------------------------------------------

# --- Negative grades and gains (18) --------------------------------------------------------------

# --- Numbers and names of other tools (19 to 24) -------------------------------------------------

# --- Tests of few groups (25, 26) ----------------------------------------------------------------

# --- Sources: groups in parts, files with two names (27, 28) -------------------------------------

# --- Readers and numbers (29 to 31) --------------------------------------------------------------

# --- Messages (32) -------------------------------------------------------------------------------

# --- The front door (33, 34) ---------------------------------------------------------------------
