"""Answers that try to get more, or less, than they deserve, with the reward each must get and why.

Values are worked out by hand from difflib's 2·M / T: M matched characters, T the characters of answer and reversal.
"""

from typing import NamedTuple

GUIDE = "The community in Bruck was merged into it"
CLIFF = "ab" * 100
"""200 characters, each of them frequent: from this length on difflib starts no match at them."""


class Case(NamedTuple):
    why: str
    text: str
    completion: str
    reward: float


def tagged(answer: str) -> str:
    return f"<reversed_text>{answer}</reversed_text>"


HOSTILE = (
    Case("the exact reversal in tags", "abcd", tagged("dcba"), 1.0),
    Case("nothing at all", "abcd", "", 0.0),
    Case("an empty answer matches nothing", "abcd", tagged(""), 0.0),
    Case("blanks alone are stripped to an empty answer", "abcd", tagged("  \n "), 0.0),
    Case("an echo has no tags", "abcd", "abcd", 0.0),
    Case("an echo in tags shares one letter in order: 2·1/8", "abcd", tagged("abcd"), 0.25),
    Case("sorted letters 'abee' share 'ee' with 'eeb a': 2·2/(4+5)", "a bee", tagged("abee"), 4 / 9),
    Case("right, but without tags", "abcd", "dcba", 0.0),
    Case("a tag never closed", "abcd", "<reversed_text>dcba", 0.0),
    Case("a tag never opened", "abcd", "dcba</reversed_text>", 0.0),
    Case("closed before it is opened", "abcd", "</reversed_text>dcba<reversed_text>", 0.0),
    Case("of two pairs the first counts, here the right one", "abcd", tagged("dcba") + tagged("x"), 1.0),
    Case("of two pairs the first counts, here an empty one", "abcd", tagged("") + tagged("dcba"), 0.0),
    Case("nested: the inner opening tag's 15 characters are part of the answer: 2·4/(19+4)", "abcd",
         tagged(tagged("dcba")), 8 / 23),
    Case("blanks around the answer are stripped", "abcd", tagged(" \n\tdcba \n"), 1.0),
    Case("prose around the tags is ignored", "abcd", f"Sure! {tagged('dcba')} Anything else?", 1.0),
    Case("tags are case-sensitive", "abcd", "<REVERSED_TEXT>dcba</REVERSED_TEXT>", 0.0),
    Case("a blank inside the tag makes it another tag", "abcd", "<reversed_text >dcba</reversed_text>", 0.0),
    Case("escaped tags are no tags", "abcd", "&lt;reversed_text&gt;dcba&lt;/reversed_text&gt;", 0.0),
    Case("the right answer twice: 2·4/(8+4)", "abcd", tagged("dcbadcba"), 2 / 3),
    Case("quotes around the answer count as letters: 2·4/(6+4)", "abcd", tagged('"dcba"'), 0.8),
    Case("one letter a line: three line ends too many: 2·4/(7+4)", "abcd", tagged("d\nc\nb\na"), 8 / 11),
    Case("right letters, wrong case", "ABCD", tagged("dcba"), 0.0),
    Case("half an answer: 2·2/(2+4)", "abcd", tagged("dc"), 2 / 3),
    Case("the guide's own wrong answer: 34 of 40 and 41 characters match", GUIDE,
         tagged(".ti ot demerg saw kcuBr ni ytinummoC ehT"), 68 / 81),
    Case("the guide's sentence, exactly", GUIDE, tagged("ti otni degrem saw kcurB ni ytinummoc ehT"), 1.0),
    Case("a text that ends in a blank: its reversal begins with one, which is stripped: 2·2/(2+3)", "ab ",
         tagged(" ba"), 0.8),
    Case("the text is itself an opening tag: its reversal is harmless", "<reversed_text>",
         tagged(">txet_desrever<"), 1.0),
    Case("the reversal is itself a closing tag: the first pair is empty", ">txet_desrever/<",
         tagged("</reversed_text>"), 0.0),
    Case("tags quoted from the prompt before the answer: 'tags' is no answer: 2·1/8", "abcd",
         f"Put it in {tagged('tags')}: {tagged('dcba')}", 0.25),
    Case("accents and emoji count one a code point", "né 🙂", tagged("🙂 én"), 1.0),
    Case("a letter and its accent apart are two other code points", "é", tagged("e\u0301"), 0.0),
    Case("199 characters, the first wrong: 2·198/398", CLIFF[:199], tagged("X" + CLIFF[:199][::-1][1:]), 198 / 199),
    Case("200 characters, the first wrong: every letter is frequent, so no match starts", CLIFF,
         tagged("X" + CLIFF[::-1][1:]), 0.0),
    Case("200 characters, all right: equal strings match from the start without looking", CLIFF,
         tagged(CLIFF[::-1]), 1.0),
)  # fmt: skip
