"""Makes the texts to reverse: sentences of our own patterns and words, with made-up names.

Every text is fixed by its seed, on every Python: only `Random(seed).random()` is used, the one method whose sequence
the standard library promises to keep. `python -m rlguide.environment.generator` rewrites the frozen files that
`texts.py` reads.
"""

import json
from collections.abc import Iterator, Sequence
from random import Random

from rlguide.paths import DATA

FOLDER = DATA / "texts"
"""One file a split, named and written so that the library `datasets` reads the folder as a data set of two splits."""
FILES = {"train": FOLDER / "train.jsonl", "heldout": FOLDER / "test.jsonl"}
SPLITS = {"train": 1000, "heldout": 256}
FROZEN_SEED = 2026
MIN_CHARACTERS, MAX_CHARACTERS = 16, 56
GUIDE_SENTENCE = "The community in Bruck was merged into it"
"""The run guide's own example: kept out of every split, so that reversing it is never recall."""

WORDS = {
    "noun": """apple anchor basket bell bicycle blanket boat book bottle bridge bucket button candle carpet castle
        chair cherry clock cloud coat compass cookie copper corner crown curtain desk door drawer drum engine feather
        fence field finger flag flower forest fountain garden gate glass glove hammer harbor hat hill house island
        jacket jar kettle key kitchen ladder lake lamp lantern leaf lemon letter library lock map market meadow mirror
        mountain mushroom needle notebook oven paper pebble pencil piano pillow pipe planet plate pocket pond
        quilt rabbit radio river road rope saddle sail shelf ship shoe shovel spoon stone street summer table
        teapot ticket tower train tunnel umbrella valley village violin wagon wall wheel whistle window winter yard""",
    "adjective": """amber ancient big blue brave bright broken busy calm cheap clean cold curious dark deep dry early
        empty fair famous fast fresh gentle golden green grey happy heavy hidden hollow honest huge kind late lazy
        light little lonely long loud lucky narrow new noisy odd old open pale plain polite proud quick quiet rare red
        ripe round rusty sharp short silent silver simple slow small smooth soft square steep strange strong sweet
        tall thin tidy tiny warm wet white wide wild wooden yellow young""",
    "past": """borrowed bought broke built carried caught cleaned closed counted covered dropped drew emptied filled
        followed forgot found hid kept left lifted liked lost mended moved opened packed painted picked pulled pushed
        returned saved shook showed sold stole threw took turned washed watched wrapped""",
    "verb": """borrow bring build buy carry clean close count cover draw drop fetch fill find follow forget hide hold
        keep lift mend move open pack paint pick pull push return save sell show take throw turn wash watch wrap""",
    "animal": """badger bear bee camel cat cow crow dog donkey duck eagle fox frog goat hare hen heron horse
        lion lynx mole otter owl parrot pig raven seal snail spider swan tiger toad trout whale wolf""",
    "job": """actor baker barber captain carpenter clerk cook doctor driver farmer fisher gardener guard judge lawyer
        mason mayor miller miner nurse painter pilot plumber poet potter sailor singer smith tailor teacher waiter""",
    "when": """again at_dawn at_night at_noon before_lunch by_chance every_day in_autumn in_spring
        last_week next_year on_time once since_then soon today tomorrow tonight twice yesterday""",
    "place": """above across behind below beside beyond inside near outside over past under""",
    "unit": """boxes bytes cups days grams hours km litres metres miles minutes pages pounds steps tons weeks years""",
    "month": "January February March April May June July August September October November December",
    "day": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "colour": "black blue brown crimson cyan gold green indigo ivory lime maroon olive orange pink purple teal violet",
    "onset": "b br c cl d dr f fl g gr h j k kl l m n p pr qu r s sk st sw t th tr v w x y z",
    "vowel": "a a e e i i o o u ae ea ei ia oa ou y",
    "coda": "b ck d g k l ll m n nd ng nt p r rk rn rt s sh sk ss st t th x z",
    "town_ending": """berg bridge bury dale field ford ham haven holm mouth port stead stow ton vik ville wick
        wood""",
}
WORD_LISTS = {slot: tuple(word.replace("_", " ") for word in words.split()) for slot, words in WORDS.items()}
PATTERNS = """
{name} {past} the {adjective} {noun} {when}.
The {adjective} {animal} sat {place} the {noun}.
{town} has {number} people and {small} {nouns}.
In {year}, {name} became {job} of {town}.
"{short_name}, did you {verb} my {noun}?"
{name} said: "{verb} the {noun}!"
Where is the {noun} that {short_name} {past}?
Train {code} to {town} leaves at {time}.
{small} {unit} of {adjective} {noun} cost ${price}.
On {day}, {month} {day_number}, we {past} it.
The {job} from {town} {past} {small} {nouns}.
Do not {verb} the {noun} {place} the {noun}!
{short_name} & {short_name} ({town}, {year})
{town} was part of {town} until {year}.
{name} lives at {small} {town} Road.
Never {verb} a {animal} {when}; it's {adjective}.
The {animal}'s {noun} is {adjective}, not {adjective}.
If it is {adjective}, {verb} it; if not, {verb} it.
My {noun} weighs {decimal} kg, yours {decimal} kg.
{adjective}, {adjective} and {adjective}: the {noun} of {town}
Date: {date} / Room: {code}
{short_name} scored {small}-{small} against {town}.
About {percent}% of the {animals} are {colour}.
The {colour} {noun}, the {colour} {noun}...
Who {past} it? The {job} or the {job}?
{town} and {town} share the {noun}-{noun} line.
Please {verb} {number} {nouns} for {name}.
"{adjective} {noun}" is a book by {name}.
[{code}] {verb} {noun}; {verb} {noun}; done
Room {code}: {noun}?
{town}, {date}
{name} {past} me
{short_name} = {small} + {small} * {decimal}
e-mail {short_name}@{animal}.org {when}
{past} {when} {place} the {adjective} {noun}
The {noun} {place} {town} {past} {name} {when}.
It was merged with the {animal} {noun} of {town} {when}
""".strip().splitlines()


def choose(rng: Random, items: Sequence[str]) -> str:
    """One of `items`, each equally likely; `random.choice` may change between Pythons, this does not."""
    return items[int(rng.random() * len(items))]


def between(rng: Random, low: int, high: int) -> int:
    """A whole number from `low` to `high`, both included."""
    return low + int(rng.random() * (high - low + 1))


def texts(seed: int) -> Iterator[str]:
    """An endless stream of texts of 16 to 56 characters, mean about 36; the same seed gives the same stream."""
    rng = Random(seed)
    while True:
        yield text(rng)


def text(rng: Random) -> str:
    """One text: printable ASCII, single blanks, none at the ends, never the guide's sentence."""
    while True:
        drawn = vary(rng, choose(rng, PATTERNS).format_map(Slots(rng)))
        if MIN_CHARACTERS <= len(drawn) <= MAX_CHARACTERS and drawn != GUIDE_SENTENCE:
            return drawn


def vary(rng: Random, sentence: str) -> str:
    """Changes capitals, and the end, of some sentences."""
    chance = rng.random()
    if chance < 0.04:
        return sentence.upper()
    if chance < 0.12:
        return sentence.lower()
    if chance < 0.18:
        return " ".join(word[:1].upper() + word[1:] for word in sentence.split(" "))
    if chance < 0.45:
        sentence = sentence.rstrip(".!?")
    return sentence[0].upper() + sentence[1:]


class Slots(dict):
    """Fills a pattern: every `{slot}` is drawn anew, also the second time it stands in the same pattern."""

    def __init__(self, rng: Random):
        self.rng = rng

    def __missing__(self, slot: str) -> str:
        if slot in WORD_LISTS:
            return choose(self.rng, WORD_LISTS[slot])
        return MAKERS[slot](self.rng)


def syllables(rng: Random, count: int) -> str:
    made = "".join(choose(rng, WORD_LISTS["onset"]) + choose(rng, WORD_LISTS["vowel"]) for _ in range(count))
    return made.capitalize() + (choose(rng, WORD_LISTS["coda"]) if rng.random() < 0.6 else "")


def short_name(rng: Random) -> str:
    return syllables(rng, between(rng, 1, 2))


def name(rng: Random) -> str:
    return short_name(rng) if rng.random() < 0.5 else f"{short_name(rng)} {short_name(rng)}"


def town(rng: Random) -> str:
    return syllables(rng, 1) + choose(rng, WORD_LISTS["town_ending"])


def plural(word: str) -> str:
    if word.endswith(("s", "x", "ch", "sh")):
        return word + "es"
    if word.endswith("f"):
        return word[:-1] + "ves"
    return word[:-1] + "ies" if word.endswith("y") and word[-2] not in "aeiou" else word + "s"


def code(rng: Random) -> str:
    return f"{chr(between(rng, ord('A'), ord('Z')))}{choose(rng, '-/#_')}{between(rng, 10, 9999)}"


def date(rng: Random) -> str:
    return f"{between(rng, 1, 28):02}.{between(rng, 1, 12):02}.{between(rng, 1800, 2099)}"


MAKERS = {
    "name": name,
    "short_name": short_name,
    "town": town,
    "code": code,
    "date": date,
    "nouns": lambda rng: plural(choose(rng, WORD_LISTS["noun"])),
    "animals": lambda rng: plural(choose(rng, WORD_LISTS["animal"])),
    "day_number": lambda rng: str(between(rng, 1, 28)),
    "small": lambda rng: str(between(rng, 2, 99)),
    "number": lambda rng: f"{between(rng, 100, 99999):,}",
    "year": lambda rng: str(between(rng, 1100, 2099)),
    "time": lambda rng: f"{between(rng, 0, 23)}:{between(rng, 0, 59):02}",
    "price": lambda rng: f"{between(rng, 0, 99)}.{between(rng, 0, 99):02}",
    "decimal": lambda rng: f"{between(rng, 0, 9)}.{between(rng, 0, 9)}",
    "percent": lambda rng: str(between(rng, 1, 99)),
}


def frozen_files() -> dict[str, str]:
    """Split → content of its file: one JSON object a line, no text twice, whatever the split."""
    stream, seen, files = texts(FROZEN_SEED), set(), {}
    for split, size in SPLITS.items():
        lines = []
        while len(lines) < size:
            drawn = next(stream)
            if drawn not in seen:
                seen.add(drawn)
                lines.append(json.dumps({"prompt": drawn}) + "\n")
        files[split] = "".join(lines)
    return files


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for split, content in frozen_files().items():
        FILES[split].write_text(content, encoding="ascii", newline="\n")
    print(f"wrote {sum(SPLITS.values())} texts to {FOLDER}")


if __name__ == "__main__":
    main()
