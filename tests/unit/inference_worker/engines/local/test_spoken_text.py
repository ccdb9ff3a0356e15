"""The model's text as it is shown and as it is spoken."""

import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from antiphon.inference_worker.engines.local.clauses import ClauseSplitter
from antiphon.inference_worker.engines.local.speech import Clause
from antiphon.inference_worker.engines.local.spoken_text.markup import Markup
from antiphon.inference_worker.engines.local.spoken_text.numerals import cardinal, ordinal, roman
from antiphon.inference_worker.engines.local.spoken_text.reader import MARKS, is_latin


def clauses_of(pieces: list[str]) -> list[Clause]:
    splitter = ClauseSplitter()
    return [clause for piece in pieces for clause in splitter.feed(piece)] + splitter.flush()


def shown_and_spoken(text: str) -> tuple[str, str]:
    clauses = clauses_of(re.findall(r"\s*\S+", text))
    spoken = [said for clause in clauses for said in clause.spoken if said]
    return " ".join(clause.text for clause in clauses), " ".join(spoken)


PLAIN = [
    ("100 - 20 = 80, 1+1=2", "one hundred minus twenty equals eighty, one plus one equals two"),
    ("7 × 8 = 56, 2 + 2 = 4.", "seven times eight equals fifty-six, two plus two equals four."),
    ("56 ÷ 7 = 8, 3 > 2", "fifty-six divided by seven equals eight, three is greater than two"),
    ("56 / 7 = 8, a ≠ b", "fifty-six divided by seven equals eight, a is not equal to b"),
    ("12/4 = 3, ~50 people", "twelve divided by four equals three, about fifty people"),
    ("x ≤ 5 and y >= 3", "x is less than or equal to five and y is greater than or equal to three"),
    ("π ≈ 3.14159", "pi is approximately three point one four one five nine"),
    ("√16 = 4, f(x) = x + 1", "the square root of sixteen equals four, f(x) equals x plus one"),
    ("2^10 = 1024", "two to the power of ten equals one thousand twenty-four"),
    ("x³ + 2x - 5, E = mc²", "x cubed plus two x minus five, E equals mc squared"),
    ("(3 + 4) * 2 = 14, y = 3x", "(three plus four) times two equals fourteen, y equals three x"),
    ("5! = 120, 5 ± 2", "five factorial equals one hundred twenty, five plus or minus two"),
    ("-7 + 3 = -4, |x|, ¥1000", "minus seven plus three equals minus four, x, one thousand yen"),
    ("area = width * height, $1 million", "area equals width times height, one million dollars"),
    ("2 * (3 + 4), 50¢, £1", "two times (three plus four), fifty cents, one pound"),
    ("0.1 + 0.2 = 0.3", "zero point one plus zero point two equals zero point three"),
    (
        "€3.99, 3 €, 3,50 €, 1.000 €",
        "three euros and ninety-nine cents, three euros, three euros and fifty cents, one thousand euros",
    ),
    ("$1,234.56", "one thousand two hundred thirty-four dollars and fifty-six cents"),
    ("$2.5bn in sales, £0.01", "two point five billion dollars in sales, one penny"),
    ("US$20 and A$5, -$5", "twenty US dollars and five Australian dollars, minus five dollars"),
    ("CHF 20 and 20 EUR, ₹500", "twenty Swiss francs and twenty euros, five hundred rupees"),
    ("$5/hour, It was $5.", "five dollars per hour, It was five dollars."),
    ("1.5 km and 1 km, 45°", "one point five kilometers and one kilometer, forty-five degrees"),
    ("10 m tall, 5 m/s", "ten meters tall, five meters per second"),
    ("20 °C, 72°F", "twenty degrees Celsius, seventy-two degrees Fahrenheit"),
    ("3.5GB RAM, 16 GB of RAM", "three point five gigabytes RAM, sixteen gigabytes of RAM"),
    ("100 Mbps, 2.4 GHz", "one hundred megabits per second, two point four gigahertz"),
    ("6'2\" tall, 100 mg, 5 min", "six foot two tall, one hundred milligrams, five minutes"),
    ("2 L of water, 500 mL, 1 h", "two liters of water, five hundred milliliters, one hour"),
    ("100 km², 30 s, 50 %", "one hundred square kilometers, thirty seconds, fifty percent"),
    ("60 mph, 10 kWh, 0.5%", "sixty miles per hour, ten kilowatt hours, zero point five percent"),
    ("5–10%, 5-10 km, 9–5", "five to ten percent, five to ten kilometers, nine to five"),
    ("10-20 °C, 1914-18", "ten to twenty degrees Celsius, nineteen fourteen to eighteen"),
    ("1990–1995, pages 5–7", "nineteen ninety to nineteen ninety-five, pages five to seven"),
    ("2010 - 2015", "twenty ten to twenty fifteen"),
    ("won 3–2, Mon-Fri, 7:30 am", "won three to two, Monday to Friday, seven thirty A-M"),
    ("12:00, 00:00, 14:05:30", "twelve o'clock, midnight, fourteen oh five and thirty seconds"),
    ("9:00–17:00, at 5pm, 6 a.m.", "nine o'clock to seventeen hundred, at five P-M, six A-M."),
    ("5 p.m. today, Jan 5, 2024", "five P-M today, January fifth, twenty twenty-four"),
    ("on 5 March 2020, July 4th", "on the fifth of March twenty twenty, July fourth"),
    ("4th of July", "the fourth of July"),
    ("Dec. 25, 12/25/2024", "December twenty-fifth, December twenty-fifth, twenty twenty-four"),
    ("25.12.2024, the 1800s", "December twenty-fifth, twenty twenty-four, the eighteen hundreds"),
    ("03/04/2026, the '60s", "March fourth, twenty twenty-six, the sixties"),
    ("2026-11-28T14:05", "November twenty-eighth, twenty twenty-six fourteen oh five"),
    ("Sat, Nov 28, room 101", "Saturday, November twenty-eighth, room one hundred one"),
    ("in the 1980s and 80s, 1000000", "in the nineteen eighties and eighties, one million"),
    ("1066 was a year, 1000000000000", "one thousand sixty-six was a year, one trillion"),
    ("1500 people", "one thousand five hundred people"),
    ("2,026 items, the 21st century", "two thousand twenty-six items, the twenty-first century"),
    (
        "2nd, 3rd, 11th, 12th, 13th, 101st",
        "second, third, eleventh, twelfth, thirteenth, one hundred first",
    ),
    ("999,999, .5", "nine hundred ninety-nine thousand nine hundred ninety-nine, point five"),
    ("0.05, -0.5, 5/8, ½", "zero point zero five, minus zero point five, five eighths, one half"),
    ("1/3 cup and 2/3, 3½ hours", "one third cup and two thirds, three and a half hours"),
    ("1 3/4, 24/7, 9/11, H₂O", "one and three quarters, twenty-four seven, nine eleven, H two O"),
    ("1e6, 10⁶", "one times ten to the power of six, ten to the power of six"),
    ("in 1066, e.g. apples, i.e. fruit", "in ten sixty-six, for example apples, that is fruit"),
    ("on 5 March 2020, 1 January", "on the fifth of March twenty twenty, the first of January"),
    (
        "Dr. Smith and Mr. Jones met Mrs. Brown, Prof. Lee and St. Peter.",
        "Doctor Smith and Mister Jones met Missus Brown, Professor Lee and Saint Peter.",
    ),
    (
        "Turn left on Main St. and Rodeo Dr. today.",
        "Turn left on Main Street and Rodeo Drive today.",
    ),
    ("apples, pears, etc. are fruit", "apples, pears, et cetera are fruit"),
    ("cats vs. dogs, vs dogs, PDFs and CPUs", "cats versus dogs, versus dogs, PDFs and CPUs"),
    ("approx. 5 km, Ph.D. or PhD", "approximately five kilometers, P-H-D or P-H-D"),
    (
        "See No. 5 and Fig. 3 on p. 12, pp. 5-7, Vol. 2.",
        "See number five and figure three on page twelve, pages five to seven, volume two.",
    ),
    ("Martin Luther King Jr. spoke", "Martin Luther King Junior spoke"),
    ("Acme Inc. and Foo Ltd. and Bar Co.", "Acme Incorporated and Foo Limited and Bar Company."),
    ("The U.S. and U.K. and D.C.", "The U-S and U-K and D-C."),
    ("NASA and the FBI use HTML, AWS and NYC", "NASA and the FBI use HTML, A-W-S and N-Y-C"),
    ("J. K. Rowling, George W. Bush", "J. K. Rowling, George W. Bush"),
    ("Louis XIV was king, Elizabeth I think", "Louis the fourteenth was king, Elizabeth I think"),
    ("Elizabeth I was queen, Henry VIII", "Elizabeth the first was queen, Henry the eighth"),
    ("Queen Elizabeth II's crown, Rocky IV", "Queen Elizabeth the second's crown, Rocky four"),
    ("John Paul II, Chapter IV and Part I", "John Paul the second, Chapter four and Part one"),
    ("World War II and World War I", "World War two and World War one"),
    ("Act III, Scene ii, the XX century", "Act three, Scene two, the twentieth century"),
    ("Super Bowl LVIII, user@example.com", "Super Bowl fifty-eight, user at example dot com"),
    ("I am VI. XL shirts, a CD, an MD", "I am VI. XL shirts, a CD, an MD"),
    ("Malcolm X and Vitamin D, www.example.com", "Malcolm X and Vitamin D, example dot com"),
    (
        "first.last+tag@mail.example.co.uk",
        "first dot last plus tag at mail dot example dot co dot uk",
    ),
    ("https://www.example.com/a?b=1", "example dot com slash a"),
    ("http://localhost:8000/health", "localhost port eight thousand slash health"),
    (
        "https://en.wikipedia.org/wiki/Speech_synthesis.",
        "en dot wikipedia dot org slash wiki slash Speech synthesis.",
    ),
    ("example.com/docs, Node.js and .NET", "example dot com slash docs, Node dot js and dot net"),
    ("(see https://a.io/x), Python 3.11", "(see a dot io slash x), Python three point one one"),
    ("open file.py and main.test.ts", "open file dot py and main dot test dot ts"),
    ("v2.0, version 3.11.2", "version two point zero, version three point eleven point two"),
    (
        "192.168.0.1:8080",
        "one nine two dot one six eight dot zero dot one port eight thousand eighty",
    ),
    (
        "@handle and #tag #MachineLearning #1",
        "at handle and hashtag tag hashtag Machine Learning number one",
    ),
    ("/usr/local/bin and ~/notes.txt", "slash usr slash local slash bin and slash notes dot txt"),
    ("and/or, he/she, w/o", "and or, he she, without"),
    ("e3b0c44298fc1c149afbf4c8996fb924, call 911", "a long code, call nine one one"),
    ("123e4567-e89b-12d3-a456-426614174000, x86_64", "a long code, x eighty-six sixty-four"),
    ("(555) 123-4567, R2-D2", "five five five, one two three, four five six seven, R-two D-two"),
    ("555-123-4567, Great 😀!", "five five five, one two three, four five six seven, Great!"),
    ("+44 20 7946 0958", "plus four four, two zero, seven nine four six, zero nine five eight"),
    ("1-800-555-1234, ✓ done", "one, eight zero zero, five five five, one two three four, done"),
    ("555-1234, 10x faster, I ❤️ you", "five five five, one two three four, ten x faster, I you"),
    ("500-1000 people, → next, A → B", "five hundred to one thousand people, next, A, B"),
    (
        "ISBN 978-3-16-148410-0",
        "ISBN nine seven eight, three, one six, one four eight four one zero, zero",
    ),
    ("😀", ""),
    ("👍🏽 👨\u200d👩\u200d👧\u200d👦 🇩🇪", ""),
    ("a -> b, C++ and C# and F#, Q&A", "a, b, C plus plus and C sharp and F sharp, Q and A"),
    ("A+ grade, AT&T and R&D, you & me", "A plus grade, A-T and T and R and D, you and me"),
    ("50+ people, wait... what?!?!", "fifty plus people, wait… what?"),
    ("Hello!!!", "Hello!"),
    ('Well—yes, no–no, "Hello," she said.', "Well—yes, no no, Hello, she said."),
    ("Paris – of course – is one.", "Paris — of course is one."),
    ("it's the dogs' 'bone', rock 'n' roll, ∞", "it's the dogs bone, rock n roll, infinity"),
    ("(really) [sic] {x}, Москва is Moscow, 5'10\"", "(really) sic x, is Moscow, five foot ten"),
    ("你好，世界", ""),
    ("Ünïcödé café naïve Straße, λόγος means word", "Ünïcödé café naïve Straße, means word"),
    ("π and α and Δx, a*b, Ｈｅｌｌｏ １２", "pi and alpha and delta x, a times b, Hello twelve"),
    ("§ 5 and © 2024, 𝐇𝐞𝐥𝐥𝐨", "section five and copyright twenty twenty-four, Hello"),
    ("٣ + ٤, x_1 + x_2, 1. First", "three plus four, x one plus x two, one. First"),
    ("snake_case and kebab-case and camelCase", "snake case and kebab-case and camelCase"),
    ("key=value, --help and -v, I <3 you", "key equals value, help and v, I you"),
    ("5 < 6, a < b, x<y", "five is less than six, a is less than b, x is less than y"),
    (">5, :) and ;-), #5, John 3:16", "more than five, and, number five, John three sixteen"),
    (
        "3:1 ratio, 16:9, 1:100 scale",
        "three to one ratio, sixteen to nine, one to one hundred scale",
    ),
    ("score was 3-2, AT&T in MMXXVI", "score was three to two, A-T and T in twenty twenty-six"),
    (
        "I'm sure we'll see 1st-class results, don't you?",
        "I'm sure we'll see first class results, don't you?",
    ),
    (
        "The population is 67.4 million (2021).",
        "The population is sixty-seven point four million (twenty twenty-one).",
    ),
    (
        "He was born on Feb. 12, 1809, in Kentucky.",
        "He was born on February twelfth, eighteen oh nine, in Kentucky.",
    ),
    (
        "The meeting is from 2-3 pm on 3/15.",
        "The meeting is from two to three P-M on March fifteenth.",
    ),
    ("In Python, x = [1, 2, 3] is a list.", "In Python, x equals one, two, three is a list."),
    (
        "The area is A = πr², so r = √(A/π).",
        "The area is A equals pi r squared, so r equals the square root of (A divided by pi).",
    ),
    (
        "Mix 2 1/2 cups flour & 1 tbsp sugar.",
        "Mix two and a half cups flour and one tablespoon sugar.",
    ),
    ("It weighs 5lbs. or 2.3kg.", "It weighs five pounds or two point three kilograms."),
    (
        "Room 12B, Apt. 4, 221B Baker St., London",
        "Room twelve B, apartment four, two hundred twenty-one B Baker Street, London",
    ),
    (
        "Visit https://github.com/user/repo/issues/123?tab=open#top now.",
        "Visit github dot com slash user slash repo now.",
    ),
    ("Email john_doe99@gmail.com!", "Email john underscore doe ninety-nine at gmail dot com!"),
    ("My IP is 10.0.0.1.", "My IP is ten dot zero dot zero dot one."),
    (
        "The 2020s, mid-1990s and pre-1900 era",
        "The twenty twenties, mid nineteen nineties and pre nineteen hundred era",
    ),
    ("It isn't free -- it's $5.", "It isn't free it's five dollars."),
    ("a 50/50 split, 1) one 2) two", "a fifty fifty split, one, one two, two"),
    (
        "2x2 matrix, 1920x1080",
        "two by two matrix, one thousand nine hundred twenty by one thousand eighty",
    ),
    (
        "Q1 2024, UTF-8 and SHA-256",
        "Q-one twenty twenty-four, U-T-F-eight and S-H-A-two hundred fifty-six",
    ),
    ("👋 Hello there! 😊 How are you?", "Hello there! How are you?"),
    ("$100 bill, α-helix, 5 -3", "one hundred dollar bill, alpha helix, five minus three"),
    ("No. 10 is here.", "No. ten is here."),
    ("I said no. Then No. 5 came.", "I said no. Then number five came."),
    (
        "10^-3, e^x, 2**8",
        "ten to the power of minus three, e to the power of x, two to the power of eight",
    ),
    ("1.2.3.4.5", "one point two point three point four point five"),
    ("use -o timeout=500 or (-k)", "use o timeout equals five hundred or (k)"),
    ("-x + 3 = 2, Jan–Mar 2020", "minus x plus three equals two, January to March twenty twenty"),
    ("1990s-2000s, ¡Hola! ¿Qué tal?", "nineteen nineties to two thousands, Hola! Qué tal?"),
    ("text[1] and a[i], 3 USD and USD 3", "text and a i, three US dollars and three US dollars"),
    ("£1.2 million, $5-10", "one point two million pounds, five to ten dollars"),
    ("5 km/h, −5 °F", "five kilometers per hour, minus five degrees Fahrenheit"),
    ("the ½-inch bolt", "the one half inch bolt"),
    ("2*3*4 and 5 *4", "two times three times four and five times four"),
    (
        "$3.499, $0.125, US$1.500",
        "three point four nine nine dollars, zero point one two five dollars, "
        "one point five zero zero US dollars",
    ),
    ("£2.375, €0.125", "two point three seven five pounds, zero point one two five euros"),
    ("$1.234 billion now", "one point two three four billion dollars now"),
    ("€1.234 billion now", "one point two three four billion euros now"),
    (
        "€3.499, 1.500 $, $2.000.000",
        "three thousand four hundred ninety-nine euros, one thousand five hundred dollars, two million dollars",
    ),
    ("$-5, €-5.50", "minus five dollars, minus five euros and fifty cents"),
    (
        "10⁻³, 1.6×10⁻¹⁹",
        "ten to the power of minus three, one point six times ten to the power of minus nineteen",
    ),
    ("xⁿ and 10⁻ⁿ", "x to the power of n and ten to the power of minus n"),
    (
        "from 9am-5pm or 9 a.m.-5 p.m. daily",
        "from nine A-M to five P-M or nine A-M to five P-M daily",
    ),
    ("from 9 am - 5 pm, 9am – 5pm", "from nine A-M to five P-M, nine A-M to five P-M"),
    (
        "5%-10% and 1st-2nd, 5km-10km",
        "five percent to ten percent and first to second, five kilometers to ten kilometers",
    ),
    ("$5 - $6, $6 - $5", "five dollars to six dollars, six dollars minus five dollars"),
    (
        "$9.50 - $10.25 each",
        "nine dollars and fifty cents to ten dollars and twenty-five cents each",
    ),
    ("10% - 5% = 5%", "ten percent minus five percent equals five percent"),
    (
        "$5/hr or $20/mo, 3 EUR/kg",
        "five dollars per hour or twenty dollars per month, three euros per kilogram",
    ),
    ("$0.12/kWh, €9/m²", "twelve cents per kilowatt hour, nine euros per square meter"),
    (
        "in kg/m³, 5 kg/m³, 9.8 m/s²",
        "in kilograms per cubic meter, five kilograms per cubic meter, "
        "nine point eight meters per second squared",
    ),
    ("a flow of 3 m³/s", "a flow of three cubic meters per second"),
    ("II. First. IV. Last.", "two. First. four. Last."),
    ("in stage IV of it, Use an IV. Now.", "in stage four of it, Use an I-V. Now."),
    ("the IV drip, an IV line", "the I-V drip, an I-V line"),
    ("see (ii) and (xviii), iPhone XI is out", "see (two) and (eighteen), iPhone eleven is out"),
    ("the XI is good, XX chromosomes", "the eleventh is good, X-X chromosomes"),
]
"""Text without markup, and how it is spoken. It is shown as it is."""

MARKED = [
    ("\\( x^2 + 1 \\)", "x^2 + 1", "x squared plus one"),
    ("$\\frac{1}{2}$ of $x$", "\\frac{1}{2} of x", "one over two of x"),
    (
        "**bold** and _x_ and `code` and ~~old~~",
        "bold and x and code and old",
        "bold and x and code and old",
    ),
    (
        "***both*** and **two words** and *one more.*",
        "both and two words and one more.",
        "both and two words and one more.",
    ),
    ("# Title", "Title", "Title"),
    ("- item", "item", "item"),
    ("> quote", "quote", "quote"),
    (
        "[link](https://a.b/c) and [two words](https://a.b/c).",
        "link and two words.",
        "link and two words.",
    ),
    ("| Name | Age |\n|---|---|\n| Bob | 5 |", "Name | Age | Bob | 5 |", "Name, Age Bob, five"),
    ("```python\nprint(1)\n```\nDone.", "print(1) Done.", "code. Done."),
    ("<b>bold</b> <br>", "bold", "bold"),
    (
        "Sure! 12 * 4 = 48, so the answer is **48**.",
        "Sure! 12 * 4 = 48, so the answer is 48.",
        "Sure! twelve times four equals forty-eight, so the answer is forty-eight.",
    ),
    (
        "Use `python main.py --port 8080` now.",
        "Use python main.py --port 8080 now.",
        "Use python main dot py port eight thousand eighty now.",
    ),
    ("Hello**World**", "HelloWorld", "HelloWorld"),
    (
        "see <https://a.io> or <me@b.org>",
        "see https://a.io or me@b.org",
        "see a dot io or me at b dot org",
    ),
    ("***", "", ""),
    ("a \\* b \\_c\\_", "a * b _c_", "a times b c"),
    ("* cheap\n+ fast\n50% off", "cheap fast 50% off", "cheap fast fifty percent off"),
]
"""Text with markup, without it, and how it is spoken."""


@pytest.mark.parametrize(("text", "spoken"), PLAIN)
def test_text_is_shown_as_it_is_and_spoken_in_words(text: str, spoken: str) -> None:
    assert shown_and_spoken(text) == (text, spoken)


@pytest.mark.parametrize(("text", "shown", "spoken"), MARKED)
def test_markup_is_neither_shown_nor_spoken(text: str, shown: str, spoken: str) -> None:
    assert shown_and_spoken(text) == (shown, spoken)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("12 * 4 = 48", [("12 *", "twelve times"), ("4 =", "four equals"), ("48", "forty-eight")]),
        (
            "£1.2 million now",
            [("£1.2", "one point two"), ("million", "million pounds"), ("now", "now")],
        ),
        ("5 km/h 你好", [("5", "five"), ("km/h", "kilometers per hour"), ("你好", "")]),
        (
            "call +44 20 79",
            [
                ("call", "call"),
                ("+44", "plus four four,"),
                ("20", "two zero,"),
                ("79", "seven nine"),
            ],
        ),
        ("Great 😀", [("Great 😀", "Great")]),
        ("```\nx 1\n```", [("x", "code."), ("1", "")]),
    ],
)
def test_each_shown_word_has_its_part_of_the_speech(
    text: str, words: list[tuple[str, str]]
) -> None:
    [clause] = clauses_of([text])
    assert [(word.text, word.spoken) for word in clause.words] == words


def test_a_sum_is_not_cut_by_a_lack_of_breath() -> None:
    text = "Now you can see everyone knows already clearly 12 - 4 = 8 is left again"
    [first, _] = clauses_of(re.findall(r"\s*\S+", text))
    assert first.text.endswith("12 - 4 = 8 is")


def test_an_abbreviation_may_end_a_sentence() -> None:
    texts = [
        clause.text
        for clause in clauses_of(["Apples, pears, etc. ", "They open at 5 p.m. ", "Yes. "])
    ]
    assert texts == ["Apples, pears, etc.", "They open at 5 p.m.", "Yes."]


def test_a_word_of_any_length_has_a_bounded_speech() -> None:
    for text in ("a" * 3000, "7" * 3000, "1-" * 1500, "a.b" * 1000, "**" * 1500 + "a", "😀" * 3000):
        [clause] = clauses_of([text])
        assert clause.text.strip("*") == text.strip("*")
        assert len(clause.spoken[0]) <= 240


_TEXT = st.one_of(
    st.text(max_size=120),
    st.text(
        st.sampled_from("0123456789.,:/-–+*=<>^%$€x ²½'\"()_\\{}#@!&~\n IVXapmAD"), max_size=60
    ),
    st.lists(st.sampled_from([text for text, _ in PLAIN]), max_size=4).map(" ".join),
)
_REMOVED = re.compile(r"`|~~~|\]\(|<")
"""What may begin a part that is not shown: a language, a target, a tag."""


@given(_TEXT, st.integers(min_value=1, max_value=9))
@example("2026-11-28T99:99 1/0 0/0 ²³¹ Ⅷ① \\frac{1}{0} v1.٣ 99999999999999999999/3", 1)
def test_any_text_keeps_its_letters_and_is_spoken_in_speakable_characters(
    text: str, size: int
) -> None:
    clauses = clauses_of([text[at : at + size] for at in range(0, len(text), size)])
    shown = "".join(clause.text for clause in clauses)
    if not _REMOVED.search(text):
        assert _alphanumeric(shown) == _alphanumeric(text)
    for clause in clauses:
        assert all(word.text and word.tokens >= 1 for word in clause.words)
        for said in clause.spoken:
            assert said == " ".join(said.split())
            assert all(is_latin(one) or one in " '-" + MARKS for one in said), said
            assert not said or any(map(str.isalpha, said))


def _alphanumeric(text: str) -> str:
    # Ideographs that NFKC would change are compared as they are.
    return "".join(character for character in text if unicodedata.category(character)[0] in "LN")


@given(st.integers(min_value=0, max_value=10**16))
def test_a_number_has_one_name(value: int) -> None:
    name = cardinal(value)
    assert "zero" not in name or value == 0
    assert ordinal(value).endswith(("th", "first", "second", "third"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("IV", 4),
        ("XIV", 14),
        ("XL", 40),
        ("MCMXCVIII", 1998),
        ("IIII", None),
        ("VX", None),
        ("", None),
    ],
)
def test_roman_numerals_have_one_form(text: str, value: int | None) -> None:
    assert roman(text) == value


def test_bullets_and_heading_marks_are_markup_at_the_beginning_of_a_line_only() -> None:
    for mark in ("-", "##", "*", "+", ">", "|"):
        assert Markup().strip(mark, begins_line=True).text == ""
        assert Markup().strip(mark, begins_line=False).text == mark
    assert Markup().strip("7.", begins_line=True).text == "7."
