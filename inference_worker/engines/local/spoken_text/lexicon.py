"""Tables of signs, units, currencies and abbreviations, and how they are spoken."""

from collections.abc import Mapping

_PREFIXED = {
    "m": "meter", "g": "gram", "l": "liter", "L": "liter", "W": "watt", "V": "volt", "Hz": "hertz",
    "Pa": "pascal", "J": "joule", "Wh": "watt hour", "Ah": "amp hour", "cal": "calorie", "B": "byte",
    "bit": "bit", "bps": "bit per second", "s": "second",
}  # fmt: skip
_PREFIXES = {
    "n": "nano", "µ": "micro", "μ": "micro", "m": "milli", "c": "centi", "d": "deci", "h": "hecto",
    "k": "kilo", "K": "kilo", "M": "mega", "G": "giga", "T": "tera", "P": "peta",
}  # fmt: skip
_USUAL = [
    "nm", "µm", "μm", "mm", "cm", "km", "µg", "μg", "mg", "kg", "ml", "mL", "cl", "dl", "mW", "kW",
    "MW", "GW", "TW", "mV", "kV", "kHz", "MHz", "GHz", "THz", "hPa", "kPa", "MPa", "kJ", "MJ", "kWh",
    "MWh", "GWh", "TWh", "mAh", "kcal", "kB", "KB", "MB", "GB", "TB", "PB", "kbit", "Mbit", "Gbit",
    "kbps", "Mbps", "Gbps", "ns", "µs", "μs", "ms",
]  # fmt: skip


def _unit_of(symbol: str) -> tuple[str, str]:
    word = _PREFIXES[symbol[0]] + _PREFIXED[symbol[1:]]
    return word, _plural_unit(word)


def _plural_unit(word: str) -> str:
    head, per, rest = word.partition(" per ")
    return f"{head if head.endswith('hertz') else head + 's'}{per}{rest}"


UNITS: Mapping[str, tuple[str, str]] = {
    **{symbol: (word, _plural_unit(word)) for symbol, word in _PREFIXED.items() if symbol not in ("cal", "B")},
    **{symbol: _unit_of(symbol) for symbol in _USUAL},
    "%": ("percent", "percent"), "‰": ("per mille", "per mille"),
    "°C": ("degree Celsius", "degrees Celsius"), "℃": ("degree Celsius", "degrees Celsius"),
    "°F": ("degree Fahrenheit", "degrees Fahrenheit"), "℉": ("degree Fahrenheit", "degrees Fahrenheit"),
    "°": ("degree", "degrees"),
    "mph": ("mile per hour", "miles per hour"), "kph": ("kilometer per hour", "kilometers per hour"),
    "ft": ("foot", "feet"), "yd": ("yard", "yards"), "mi": ("mile", "miles"), "lb": ("pound", "pounds"),
    "lbs": ("pound", "pounds"), "oz": ("ounce", "ounces"), "in": ("inch", "inches"),
    "ha": ("hectare", "hectares"),
    "min": ("minute", "minutes"), "mins": ("minute", "minutes"), "sec": ("second", "seconds"),
    "secs": ("second", "seconds"), "hr": ("hour", "hours"), "hrs": ("hour", "hours"),
    "h": ("hour", "hours"),
    "yr": ("year", "years"), "yrs": ("year", "years"), "dB": ("decibel", "decibels"),
    "px": ("pixel", "pixels"),
    "rpm": ("revolution per minute", "revolutions per minute"), "Ω": ("ohm", "ohms"),
    "fps": ("frame per second", "frames per second"), "ppm": ("part per million", "parts per million"),
    "KiB": ("kibibyte", "kibibytes"), "MiB": ("mebibyte", "mebibytes"), "GiB": ("gibibyte", "gibibytes"),
    "TiB": ("tebibyte", "tebibytes"), "tsp": ("teaspoon", "teaspoons"),
    "tbsp": ("tablespoon", "tablespoons"),
    "mmHg": ("millimeter of mercury", "millimeters of mercury"),
}  # fmt: skip

ATTACHED_UNITS = frozenset({"in"})
"""Units that are other words or names where a space is before them."""

_DOLLARS = {"US": "US", "A": "Australian", "AU": "Australian", "C": "Canadian", "CA": "Canadian"}
_DOLLARS |= {"NZ": "New Zealand", "HK": "Hong Kong", "S": "Singapore"}

CURRENCIES: Mapping[str, tuple[str, str, str, str]] = {
    "$": ("dollar", "dollars", "cent", "cents"), "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"), "¥": ("yen", "yen", "sen", "sen"),
    "₹": ("rupee", "rupees", "paisa", "paise"), "₽": ("ruble", "rubles", "kopek", "kopeks"),
    "₩": ("won", "won", "jeon", "jeon"), "₪": ("shekel", "shekels", "agora", "agorot"),
    "₺": ("lira", "lira", "kurus", "kurus"), "₴": ("hryvnia", "hryvnias", "kopek", "kopeks"),
    "₫": ("dong", "dong", "xu", "xu"), "₱": ("peso", "pesos", "centavo", "centavos"),
    "₿": ("bitcoin", "bitcoins", "", ""),
    "USD": ("US dollar", "US dollars", "cent", "cents"), "EUR": ("euro", "euros", "cent", "cents"),
    "GBP": ("pound", "pounds", "penny", "pence"), "JPY": ("yen", "yen", "sen", "sen"),
    "CNY": ("yuan", "yuan", "fen", "fen"), "RMB": ("yuan", "yuan", "fen", "fen"),
    "CHF": ("Swiss franc", "Swiss francs", "centime", "centimes"),
    "CAD": ("Canadian dollar", "Canadian dollars", "cent", "cents"),
    "AUD": ("Australian dollar", "Australian dollars", "cent", "cents"),
    "INR": ("rupee", "rupees", "paisa", "paise"),
    **{f"{code}$": (f"{name} dollar", f"{name} dollars", "cent", "cents") for code, name in _DOLLARS.items()},
}  # fmt: skip

MAGNITUDES = {
    "k": "thousand", "K": "thousand", "m": "million", "M": "million", "mn": "million", "bn": "billion",
    "b": "billion", "B": "billion", "tn": "trillion", "T": "trillion",
}  # fmt: skip

MONTHS = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
]  # fmt: skip
WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]

TITLES = {
    "Mr": "Mister", "Mrs": "Missus", "Ms": "Miz", "Prof": "Professor", "Gen": "General", "Col": "Colonel",
    "Lt": "Lieutenant", "Capt": "Captain", "Sgt": "Sergeant", "Sen": "Senator", "Rep": "Representative",
    "Gov": "Governor", "Rev": "Reverend", "Mt": "Mount", "Ft": "Fort",
}  # fmt: skip
"""Abbreviations that a name follows."""

BEFORE_NUMBERS = {
    "No": "number", "no": "number", "Nos": "numbers", "Nr": "number", "№": "number", "Fig": "figure",
    "Figs": "figures", "Vol": "volume", "vol": "volume", "Ch": "chapter", "Sec": "section", "p": "page",
    "pp": "pages", "Art": "article", "Eq": "equation", "Ver": "version", "ver": "version", "ca": "circa",
    "Apt": "apartment", "apt": "apartment",
    "c": "circa",
}  # fmt: skip
"""Abbreviations that a number follows."""

ABBREVIATIONS = {
    "etc": "et cetera", "e.g": "for example", "eg": "for example", "i.e": "that is", "ie": "that is",
    "vs": "versus", "approx": "approximately", "Jr": "Junior", "Sr": "Senior", "Ave": "Avenue",
    "Blvd": "Boulevard", "Rd": "Road", "Inc": "Incorporated", "Ltd": "Limited", "Corp": "Corporation",
    "Co": "Company", "dept": "department", "Dept": "Department", "est": "estimated", "Est": "established",
    "min": "minimum", "max": "maximum", "incl": "including", "cf": "compare", "et al": "and others",
    "Assn": "Association", "Univ": "University", "govt": "government", "Govt": "Government",
    "Mtn": "Mountain",
    "misc": "miscellaneous", "temp": "temperature", "tel": "telephone", "Tel": "telephone",
    "a.k.a": "also known as",
    "fig": "figure",
}  # fmt: skip
"""Abbreviations with a dot."""

WITHOUT_DOT = {
    "vs": "versus", "w/": "with", "w/o": "without", "b/c": "because", "Mr": "Mister", "Mrs": "Missus",
    "Ms": "Miz", "24/7": "twenty-four seven", "9/11": "nine eleven", "C#": "C sharp", "F#": "F sharp",
    "C++": "C plus plus", "NYC": "N-Y-C", "VIP": "V-I-P", "VIPs": "V-I-Ps", "AWS": "A-W-S",
    "IMHO": "I-M-H-O",
    "tsp": "teaspoons", "tbsp": "tablespoons", "aka": "also known as", "a.k.a": "also known as",
    ".NET": "dot net",
}  # fmt: skip

NUMBERED = frozenset([
    "Chapter", "Part", "Act", "Scene", "Volume", "Vol", "Book", "War", "Section", "Article", "Type",
    "Phase", "Level", "Class", "Title", "Figure", "Table", "Appendix", "Bowl", "Stage", "Tier", "Grade",
    "Group", "Division", "Round", "Unit", "Lesson", "Schedule", "Annex", "Mark", "Step", "Episode",
    "Season", "chapter", "part", "type", "phase", "level", "volume", "section",
])  # fmt: skip
"""Words before a Roman numeral that counts."""

RULERS = frozenset([
    "Louis", "Henry", "Charles", "George", "Edward", "Elizabeth", "William", "James", "John", "Paul",
    "Benedict", "Pius", "Leo", "Napoleon", "Philip", "Frederick", "Catherine", "Peter", "Nicholas",
    "Alexander", "Richard", "Ramses", "Ramesses", "Francis", "Gregory", "Innocent", "Clement", "Ivan",
    "Otto", "Ferdinand", "Gustav", "Christian", "Margaret", "Mary", "Harald", "Ludwig", "Wilhelm",
    "Friedrich", "Umberto", "Emmanuel", "Emanuel", "Mehmed", "Murad", "Thutmose", "Amenhotep", "Seti",
    "Ptolemy", "Cleopatra", "Darius", "Xerxes", "Leopold", "Albert", "Haakon", "Olav", "Carlos",
    "Alfonso", "Juan", "Felipe", "Pedro", "Boniface", "Urban", "Sixtus", "Julius", "Celestine",
    "Constantine", "Theodosius", "Justinian", "Basil", "Michael", "Robert", "Stephen", "Sigismund",
    "Maximilian", "Rudolf", "Joseph", "Kenneth", "Adrian", "Eugene", "Selim", "Suleiman", "Antiochus",
    "Artaxerxes", "Carl", "Gustaf", "Beatrix", "Kamehameha", "Menelik", "Rama", "Mindaugas", "Casimir",
    "Vladislaus", "Baldwin", "Canute", "Frederik", "Abdulhamid", "Ahmed", "Mustafa", "Isabella",
    "Joanna",
])  # fmt: skip
"""First names that an ordinal follows."""

GREEK: Mapping[str, str] = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta", "η": "eta",
    "θ": "theta", "ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu", "ξ": "xi",
    "ο": "omicron", "π": "pi", "ρ": "rho", "σ": "sigma", "τ": "tau", "υ": "upsilon", "φ": "phi",
    "χ": "chi", "ψ": "psi", "ω": "omega",
}  # fmt: skip

SIGNS: Mapping[str, str] = {
    "!==": "is not equal to", "===": "equals", "!=": "is not equal to", "==": "equals",
    "<=": "is less than or equal to",
    ">=": "is greater than or equal to", "~=": "is approximately", "=": "equals", "≠": "is not equal to",
    "≤": "is less than or equal to", "≥": "is greater than or equal to", "≈": "is approximately",
    "≅": "is approximately", "≡": "is equivalent to", "∝": "is proportional to", "÷": "divided by",
    "±": "plus or minus",
    "√": "the square root of", "∛": "the cube root of", "∞": "infinity", "∑": "the sum of",
    "∏": "the product of",
    "∫": "the integral of", "∂": "partial", "∇": "nabla", "∈": "is in", "∉": "is not in",
    "⊂": "is a subset of",
    "⊆": "is a subset of", "∪": "union", "∩": "intersection", "∀": "for all", "∃": "there exists",
    "∅": "the empty set",
    "⇒": "implies", "⇔": "if and only if", "∴": "therefore", "¬": "not", "||": "or", "∧": "and",
    "∨": "or", "&&": "and", "&": "and",
    "©": "copyright", "§": "section", "№": "number", "♯": "sharp", "♭": "flat", "°": "degrees",
}  # fmt: skip
"""Signs that are spoken in every place."""

ARROWS = ("<->", "<=>", "-->", "==>", "->", "=>", "<-", "→", "←", "↔", "⟶", "➔")
"""Spoken as a pause."""

LATEX: Mapping[str, str] = {
    "times": "times", "cdot": "times", "div": "divided by", "pm": "plus or minus", "le": SIGNS["≤"],
    "leq": SIGNS["≤"],
    "ge": SIGNS["≥"], "geq": SIGNS["≥"], "ne": SIGNS["≠"], "neq": SIGNS["≠"], "approx": SIGNS["≈"],
    "lt": "is less than",
    "gt": "is greater than", "sqrt": SIGNS["√"], "infty": "infinity", "sum": "the sum of",
    "prod": "the product of",
    "int": "the integral of", "in": "is in", "to": "to", "rightarrow": "to", "ldots": "and so on",
    "cdots": "and so on",
    "circ": "degrees", "sin": "sine", "cos": "cosine", "tan": "tangent", "log": "log", "ln": "natural log",
    **dict.fromkeys(
        (
            "frac", "dfrac", "tfrac", "left", "right", "text", "textbf", "textit", "mathrm",
            "mathbf", "quad", "qquad", "boxed", "displaystyle", "begin", "end"
        ),
        "",
    ),
}  # fmt: skip
"""Commands that are not spoken by their name."""
