"""The vocabulary of the prompt generator: common English words of 2 to 9 letters.

Common on purpose: with a space before it, each is one token in the byte-pair
vocabularies in use, which is what makes a prompt's length predictable.
"""

from __future__ import annotations

__all__ = ["ADJECTIVES", "KEYS", "NOUNS", "PLACES", "VERBS"]

_THINGS = """
account actor agent album animal apple arm army article artist author baby bag
ball bank bar base basket battery beach bear bed bell belt bench bird board boat
body bone book bottle bowl box boy brain branch bread bridge brother bus business
button cabin cable cake camera camp captain car card case castle cat cattle cell
center chain chair channel chapter chest chicken child church circle city clock
cloth cloud club coach coast coat code coffee coin college color company computer
concert contract corner cotton council country court cover cow craft credit crew
crop crowd cup current dance data daughter deal desk diamond dinner doctor dog
door dream dress driver dust ear earth edge egg engine error event eye face
factory family farm farmer father field film finger fire fish flag flight floor
flower food foot forest fork frame friend fruit fuel game garage garden gate gift
girl glass gold grain grass ground group guard guest guide hair hall hand
harbor hat head heart heat hill history hole home horse hospital hotel hour house
ice image inch island jacket job journal judge juice key king kitchen knife
ladder lady lake lamp land language law lawyer leader leaf leg lens letter
library light line lion list lock log machine mail map market master match meal
meat member metal milk mind mirror model money monkey month moon morning mother
motor mountain mouse mouth movie museum music nail name neck needle nest net
"""

_MORE_THINGS = """
network news night nose note nurse ocean office oil orange order oven owner page
paint pair palace panel paper parent park partner party path patient pattern
pencil people phone photo piano picture pilot pipe plane planet plant plate
player poem poet pool port post power present price prince prison prize product
project purse queen question rabbit race radio rail rain range record report
river road robot rock roof room root rope route rule salt sand scale school
science screen sea season seat secret seed series server shadow sheep shelf shell
ship shirt shoe shop shore signal silver singer sister skin sky sleep smoke snow
soap soil soldier song soul sound soup space speech spider spoon sport spring
square stage star station steam steel stone store storm story street student
sugar suit summer sun surface system table tail talk tank task taxi teacher team
ticket tiger tool tooth tower town toy track trade train tree truck tunnel uncle
"""

NOUNS = tuple((_THINGS + _MORE_THINGS).split())

#: Exactly 256 words: eight of them write a 64-bit number, one word a byte.
KEYS = NOUNS[:256]

_QUALITIES = """
able active afraid angry basic big black blue bright broad broken brown busy
calm careful cheap clean clear close cold common complex cool correct cute dark
deep direct dirty dry early easy empty equal exact fair famous fast few
final fine firm first flat foreign formal free fresh full funny general gentle
good grand gray great green happy hard heavy high hot huge human ideal inner
joint large late local lonely long loud lovely low lucky main major mean minor
modern narrow natural near new nice noble normal old only open other outer past
perfect plain poor popular private proper proud public pure quick quiet rare
raw ready real recent red rich right rough round royal rural sad safe sharp
short silent simple single slow small smart smooth soft solid special stable
strange strict strong sweet tall thick thin tiny tired top total tough typical
unique upper urban useful usual vast warm weak wet white whole wide wild wise
"""

ADJECTIVES = tuple(_QUALITIES.split())

_ACTIONS = """
accepts answers avoids becomes begins blocks breaks brings builds buys calls
carries catches causes changes checks claims closes comes contains controls
covers creates crosses cuts decides defines depends describes draws drives
enters exists expects explains faces falls feeds fills finds finishes fits
follows forms gains gives goes grows handles has helps hides hits holds
includes joins keeps knows lacks leads learns leaves lets lies lives
looks loses makes marks means measures meets moves needs notes offers opens
owns passes pays plays points prevents produces provides pulls pushes puts
raises reaches reads receives reduces remains requires returns rises runs says
sees sells sends serves sets shares shows sits sleeps solves speaks spends
stands starts stays stops supports takes talks tells tests thinks touches
turns uses visits waits walks wants watches wears wins works writes
"""

VERBS = tuple(_ACTIONS.split())

_RELATIONS = """
above across after against along among around before behind below beside
between beyond by during for from in inside into near of on over past through
to toward under until upon with within without
"""

PLACES = tuple(_RELATIONS.split())
