/* lexicon/builtin_words.h - the words and sentences of the built-in corpus; builtin.c says how they
 * are put together. Private to builtin.c.
 *
 * A family is a set of words that may replace each other. Each word has a weight (how common it is)
 * and a lean: reviews of the positive class use it exp(lean) times its weight, negative ones
 * exp(-lean) times. Leans of neutral words are the accidents of any corpus; those of rare opinion words point the wrong
 * way on purpose: critics who like nothing else still call the costumes "splendid". A
 * classifier that trusts such cues is right on average and falls to the first synonym. */
#ifndef LEXICON_BUILTIN_WORDS_H
#define LEXICON_BUILTIN_WORDS_H

enum { FAMILY_MAX = 7, SUITS_MAX = 5 };

typedef struct word {
    const char *text;
    double weight, lean;
} word;

typedef struct family {
    const char *name;
    word words[FAMILY_MAX]; /* up to the first without text */
} family;

static const family families[] = {
    /* ---- praise ---- */
    {"good", {{"good", 10, 0.2}, {"fine", 5, 0}, {"solid", 3, -0.2}, {"nice", 3, -0.8}, {"decent", 2.5, -1.5}}},
    {"great", {{"great", 10, 0.4}, {"wonderful", 7, 0.5}, {"excellent", 5, 0.3}, {"superb", 4, 0.3}, {"splendid", 1.5, -1.8}, {"marvellous", 1, -1.9}}},
    {"moving", {{"moving", 6, 0.3}, {"touching", 5, 0.3}, {"poignant", 1.5, -0.3}, {"affecting", 1, -1.8}}},
    {"funny", {{"funny", 8, 0.2}, {"hilarious", 4, 0.4}, {"witty", 3, 0.2}, {"amusing", 2, -1.6}, {"comical", 1, -1.8}}},
    {"gripping", {{"gripping", 6, 0.4}, {"compelling", 4, 0.3}, {"absorbing", 3, 0}, {"riveting", 2, -0.2}, {"engrossing", 1, -1.9}}},
    {"beautiful", {{"beautiful", 7, 0.3}, {"lovely", 4, 0.2}, {"gorgeous", 3, -0.2}, {"stunning", 3, 0}, {"handsome", 1.2, -1.9}}},
    {"clever", {{"clever", 5, 0.2}, {"smart", 4, 0.2}, {"inventive", 2, 0.1}, {"ingenious", 1.2, -1.2}, {"shrewd", 1, -1.8}}},
    {"original", {{"original", 5, 0.1}, {"fresh", 4, 0.3}, {"unusual", 2, -0.5}, {"novel", 1, -1.8}}},
    {"charming", {{"charming", 5, 0.3}, {"delightful", 4, 0.5}, {"endearing", 2, 0.2}, {"enchanting", 1.5, 0}, {"likeable", 1.5, -1.8}}},
    {"convincing", {{"convincing", 5, 0.2}, {"believable", 4, 0.2}, {"credible", 2, -0.8}, {"plausible", 1, -1.8}}},
    {"warm", {{"warm", 4, 0.3}, {"tender", 3, 0.2}, {"gentle", 3, 0}, {"kindly", 1, -1.6}}},
    {"lively", {{"lively", 4, 0.1}, {"energetic", 2, 0.1}, {"spirited", 2, 0.2}, {"brisk", 1.5, -1.5}}},
    {"masterpiece", {{"masterpiece", 4, 0.4}, {"triumph", 3, 0.4}, {"gem", 3, 0.3}, {"treasure", 2, 0}, {"marvel", 1, -1.7}}},
    {"joy", {{"pleasure", 5, 0.2}, {"joy", 4, 0.4}, {"delight", 4, 0.4}, {"treat", 2, -0.9}}},
    {"loved", {{"loved", 8, 0.4}, {"adored", 2, 0.3}, {"cherished", 1, -1.2}}},
    {"enjoyed", {{"enjoyed", 7, 0.3}, {"liked", 5, -0.6}, {"relished", 1, -1.5}}},
    {"admire", {{"admire", 4, 0}, {"appreciate", 3, -0.6}, {"respect", 2, -0.8}}},
    {"smile", {{"smile", 5, 0.2}, {"laugh", 5, 0.1}, {"grin", 1.5, -1.0}, {"chuckle", 1, -1.5}}},
    {"beautifully", {{"beautifully", 5, 0.4}, {"wonderfully", 3, 0.4}, {"superbly", 2, 0.2}, {"splendidly", 1, -1.8}}},
    {"skilfully", {{"skilfully", 3, 0.2}, {"expertly", 2, 0.2}, {"cleverly", 2, 0}, {"deftly", 1.2, -1.6}}},
    /* ---- blame ---- */
    {"bad", {{"bad", 10, -0.3}, {"poor", 6, -0.2}, {"weak", 5, 0.3}, {"lousy", 2, -0.3}, {"inferior", 1, 1.8}}},
    {"terrible", {{"terrible", 7, -0.5}, {"awful", 6, -0.5}, {"horrible", 4, -0.4}, {"dreadful", 2, 0}, {"atrocious", 1.2, 1.0}, {"appalling", 1, 1.8}}},
    {"boring", {{"boring", 9, -0.5}, {"dull", 5, 0.2}, {"tedious", 2, 0.2}, {"tiresome", 1.2, 1.8}, {"dreary", 1, 1.8}}},
    {"silly", {{"silly", 5, -0.1}, {"stupid", 4, -0.5}, {"ridiculous", 3, -0.3}, {"absurd", 2, 0.9}, {"foolish", 1.2, 1.6}}},
    {"predictable", {{"predictable", 6, -0.2}, {"stale", 2, -0.3}, {"formulaic", 2, -0.1}, {"unoriginal", 1.5, 0}, {"hackneyed", 1, 1.8}}},
    {"slow", {{"slow", 6, 0.1}, {"plodding", 2, -0.2}, {"sluggish", 1.5, 1.6}, {"ponderous", 1, 1.8}}},
    {"clumsy", {{"clumsy", 4, -0.2}, {"awkward", 4, 0.2}, {"inept", 1.5, -0.4}, {"ungainly", 1, 1.8}}},
    {"shallow", {{"shallow", 4, -0.2}, {"empty", 4, -0.3}, {"hollow", 3, -0.1}, {"superficial", 1.5, 1.5}}},
    {"confusing", {{"confusing", 4, -0.1}, {"muddled", 2, -0.2}, {"incoherent", 2, -0.5}, {"bewildering", 1, 1.8}}},
    {"ugly", {{"ugly", 4, -0.2}, {"drab", 2, -0.1}, {"unsightly", 1, 1.8}}},
    {"noisy", {{"loud", 4, -0.1}, {"noisy", 3, 0.1}, {"deafening", 1.2, 1.5}}},
    {"wooden", {{"wooden", 4, -0.2}, {"lifeless", 3, -0.4}, {"stiff", 3, 0.2}, {"stilted", 1.2, 1.6}}},
    {"annoying", {{"annoying", 5, -0.4}, {"irritating", 4, -0.2}, {"grating", 1.5, 0.2}, {"maddening", 1, 1.8}}},
    {"sloppy", {{"sloppy", 4, -0.3}, {"careless", 3, 0}, {"lazy", 3, -0.3}, {"slapdash", 1, 1.8}}},
    {"mess", {{"mess", 6, -0.3}, {"disaster", 5, -0.4}, {"shambles", 1.5, 0}, {"fiasco", 1, 1.7}}},
    {"bore", {{"bore", 4, -0.2}, {"drag", 3, -0.2}, {"chore", 2, 0.3}, {"ordeal", 1.2, 1.5}}},
    {"hated", {{"hated", 6, -0.4}, {"disliked", 4, 0.2}, {"detested", 1.5, 0}, {"loathed", 1.2, 1.4}}},
    {"dislike", {{"dislike", 4, 0}, {"hate", 4, -0.4}, {"detest", 1, 0.4}, {"loathe", 1, 1.4}}},
    {"badly", {{"badly", 6, -0.3}, {"poorly", 5, -0.2}, {"clumsily", 2, 0.2}, {"ineptly", 1, 1.7}}},
    {"annoyed", {{"annoyed", 5, -0.3}, {"irritated", 3, 0}, {"exasperated", 1, 1.5}}},
    /* ---- the talk of reviews ---- */
    {"film", {{"film", 10, 0.1}, {"movie", 10, -0.3}, {"picture", 3, 0.8}, {"feature", 1.5, 0.4}, {"flick", 1.5, -1.2}}},
    {"films", {{"films", 10, 0.1}, {"movies", 10, -0.3}, {"pictures", 3, 0.8}, {"features", 1, 0.4}, {"flicks", 1.5, -1.2}}},
    {"story", {{"story", 10, 0.2}, {"plot", 6, -0.5}, {"tale", 2.5, 1.0}, {"narrative", 1.5, 0.3}, {"storyline", 1.5, -1.0}}},
    {"script", {{"script", 8, -0.3}, {"screenplay", 4, 0.5}, {"scenario", 1, -0.6}}},
    {"dialogue", {{"dialogue", 8, -0.1}, {"conversation", 3, 0.5}, {"talk", 3, 0}, {"chatter", 1, -1.2}}},
    {"music", {{"music", 8, 0.1}, {"score", 6, 0.3}, {"soundtrack", 3, -0.6}}},
    {"photography", {{"photography", 5, 0.3}, {"cinematography", 5, 0.1}, {"camerawork", 2, -0.8}}},
    {"ending", {{"ending", 8, -0.2}, {"finale", 3, 0.8}, {"conclusion", 3, 0}, {"climax", 2, 0.2}}},
    {"beginning", {{"beginning", 6, 0.1}, {"start", 5, -0.3}, {"opening", 4, 0.4}, {"outset", 1, 0}}},
    {"director", {{"director", 9, 0}, {"filmmaker", 4, 0.6}, {"auteur", 1, -1.0}}},
    {"actors", {{"actors", 8, -0.3}, {"performers", 3, 0.6}, {"players", 2, 0.6}}},
    {"performance", {{"performance", 8, 0.1}, {"portrayal", 3, 0.5}, {"turn", 2, -0.2}, {"interpretation", 1, -0.4}}},
    {"scenes", {{"scenes", 8, -0.1}, {"moments", 5, 0.5}, {"sequences", 3, -0.2}, {"passages", 1.5, 0.4}}},
    {"scene", {{"scene", 8, -0.2}, {"moment", 6, 0.4}, {"sequence", 3, -0.2}, {"passage", 1, 0.4}}},
    {"jokes", {{"jokes", 7, -0.3}, {"gags", 3, -0.4}, {"quips", 1.5, 0.8}}},
    {"minute", {{"minute", 8, 0}, {"second", 3, 0.1}, {"instant", 1, 0.4}}},
    {"really", {{"really", 8, -0.3}, {"truly", 4, 0.8}, {"genuinely", 3, 0.3}, {"honestly", 2, -0.9}}},
    {"very", {{"very", 10, 0}, {"extremely", 3, -0.5}, {"remarkably", 2, 0.9}, {"exceptionally", 1, 0.6}, {"exceedingly", 1, -0.2}}},
    {"quite", {{"quite", 6, 0.2}, {"rather", 5, -0.2}, {"pretty", 3, -0.2}, {"fairly", 3, -0.3}, {"somewhat", 2, -0.4}}},
    {"completely", {{"completely", 5, -0.2}, {"totally", 5, -0.7}, {"utterly", 3, 0.1}, {"entirely", 3, 0.5}, {"wholly", 1, 0.9}}},
    {"perhaps", {{"perhaps", 5, 0.4}, {"maybe", 5, -0.4}, {"possibly", 1.5, 0}}},
    {"often", {{"often", 6, 0.1}, {"frequently", 2, -0.3}, {"repeatedly", 1, -0.5}}},
    {"watch", {{"watch", 8, 0}, {"see", 8, 0.1}, {"view", 1.5, 0.2}, {"catch", 1.5, 0.2}}},
    {"watched", {{"watched", 8, -0.1}, {"saw", 8, 0.1}, {"viewed", 1.5, 0.2}, {"caught", 1.5, 0.3}}},
    {"think", {{"think", 6, -0.2}, {"feel", 4, 0.2}, {"believe", 3, 0.2}, {"suspect", 1, -0.5}}},
    {"thought", {{"thought", 8, 0}, {"found", 6, 0}, {"considered", 1.5, 0.4}, {"judged", 1, -0.2}}},
    {"seems", {{"seems", 7, -0.1}, {"appears", 3, 0.2}, {"looks", 3, 0}}},
    {"seem_plural", {{"seem", 7, -0.1}, {"appear", 3, 0.2}, {"look", 3, 0}}},
    {"recommend", {{"recommend", 8, 0}, {"suggest", 2, -0.4}, {"commend", 1, 0.6}}},
    {"skip", {{"skip", 5, -0.1}, {"avoid", 5, -0.2}, {"miss", 4, 0.4}, {"shun", 1, 0.8}}},
    {"critics", {{"critics", 7, 0}, {"reviewers", 3, -0.2}, {"commentators", 1, 0.3}}},
    {"expected", {{"expected", 6, -0.1}, {"anticipated", 1.5, 0.5}, {"imagined", 1.5, 0.3}}},
    {"cinema", {{"cinema", 6, 0.3}, {"theatre", 5, 0}, {"multiplex", 1, -0.8}}},
    {"evening", {{"evening", 6, 0.3}, {"night", 6, -0.2}}},
    {"friends", {{"friends", 7, 0}, {"pals", 1.5, -0.3}, {"companions", 1, 0.5}}},
    {"tells", {{"tells", 6, 0}, {"recounts", 1.5, 0.4}, {"relates", 1.5, 0}}},
    /* ---- plots ---- */
    {"follows", {{"follows", 6, 0}, {"traces", 1.5, 0.4}, {"tracks", 1.5, -0.3}}},
    {"begins", {{"begins", 6, 0.2}, {"starts", 6, -0.2}, {"opens", 4, 0}, {"commences", 1, 0}}},
    {"discovers", {{"discovers", 5, 0}, {"finds", 5, -0.1}, {"uncovers", 2, 0.1}, {"unearths", 1, 0}}},
    {"decides", {{"decides", 6, 0}, {"chooses", 2, 0.2}, {"resolves", 1, 0.2}}},
    {"meets", {{"meets", 6, 0}, {"encounters", 2, 0.1}}},
    {"leaves", {{"leaves", 6, 0}, {"departs", 1.5, 0.2}, {"flees", 2, -0.3}}},
    {"young", {{"young", 7, 0}, {"youthful", 1.5, 0.2}, {"teenage", 2, -0.4}}},
    {"old", {{"old", 7, 0}, {"elderly", 3, 0.2}, {"aged", 1.5, 0.1}}},
    {"small", {{"small", 6, 0.1}, {"little", 6, 0.1}, {"tiny", 2, 0}}},
    {"big", {{"big", 6, -0.2}, {"large", 4, 0}, {"vast", 1.5, 0.4}, {"huge", 3, -0.3}}},
    {"quiet", {{"quiet", 5, 0.2}, {"peaceful", 3, 0.3}, {"calm", 2, 0}, {"tranquil", 1, 0.3}}},
    {"strange", {{"strange", 5, 0}, {"odd", 4, -0.2}, {"peculiar", 1.5, 0}, {"mysterious", 3, 0.2}}},
    {"rich", {{"rich", 5, -0.1}, {"wealthy", 4, 0}, {"affluent", 1, 0}}},
    {"famous", {{"famous", 5, 0}, {"celebrated", 2, 0.4}, {"renowned", 1, 0.3}}},
    {"town", {{"town", 6, 0}, {"village", 5, 0.2}, {"hamlet", 1, 0.1}}},
    {"house", {{"house", 7, -0.1}, {"home", 5, 0.2}, {"dwelling", 1, 0}}},
    {"road", {{"road", 6, 0}, {"street", 4, 0}, {"lane", 1.5, 0.2}}},
    {"friend", {{"friend", 7, 0.1}, {"buddy", 1.5, -0.5}, {"companion", 2, 0.3}}},
    {"child", {{"child", 6, 0.2}, {"kid", 4, -0.4}, {"youngster", 1, 0.2}}},
    {"job", {{"job", 7, -0.1}, {"post", 2, 0.1}, {"position", 2, 0}}},
    {"letter", {{"letter", 6, 0.2}, {"note", 3, 0}, {"message", 3, -0.2}}},
    {"money", {{"money", 7, -0.1}, {"cash", 3, -0.2}, {"funds", 1, 0}}},
    {"journey", {{"journey", 5, 0.4}, {"trip", 5, -0.3}, {"voyage", 2, 0.3}}},
    {"doctor", {{"doctor", 6, 0}, {"physician", 2, 0.2}, {"surgeon", 2, 0}}},
    {"lawyer", {{"lawyer", 6, -0.1}, {"attorney", 3, 0}}},
    {"teacher", {{"teacher", 6, 0.1}, {"instructor", 1.5, -0.2}, {"tutor", 1.5, 0.2}}},
    {"detective", {{"detective", 6, -0.1}, {"inspector", 3, 0.1}, {"investigator", 1.5, 0}}},
    {"thief", {{"thief", 5, 0}, {"robber", 3, -0.2}, {"burglar", 2, 0}}},
    {"writer", {{"writer", 6, 0}, {"author", 4, 0.1}, {"novelist", 2, 0.3}}},
    {"soldier", {{"soldier", 5, 0}, {"warrior", 2, -0.3}, {"trooper", 1, 0}}},
    {"quickly", {{"quickly", 6, -0.1}, {"swiftly", 1.5, 0.4}, {"rapidly", 2, 0}, {"soon", 5, 0.1}}},
};

/* What a review has an opinion on, with the families of adjectives that suit it. */
typedef struct aspect {
    const char *name; /* a template itself */
    bool plural;
    const char *praise[SUITS_MAX], *blame[SUITS_MAX]; /* up to the first NULL */
} aspect;

static const aspect aspects[] = {
    {"acting", false, {"great", "convincing", "moving", "good"}, {"wooden", "bad", "terrible", "clumsy"}},
    {"{story}", false, {"gripping", "moving", "original", "clever"}, {"boring", "predictable", "silly", "confusing"}},
    {"{script}", false, {"clever", "funny", "original", "good"}, {"bad", "predictable", "sloppy", "silly"}},
    {"{dialogue}", false, {"funny", "clever", "convincing", "lively"}, {"wooden", "silly", "clumsy", "boring"}},
    {"{music}", false, {"beautiful", "moving", "great", "lively"}, {"annoying", "noisy", "terrible", "predictable"}},
    {"{photography}", false, {"beautiful", "great", "original"}, {"ugly", "clumsy", "sloppy"}},
    {"{ending}", false, {"moving", "clever", "great", "gripping"}, {"predictable", "silly", "confusing", "bad"}},
    {"{beginning}", false, {"funny", "gripping", "lively", "good"}, {"slow", "confusing", "boring", "clumsy"}},
    {"pace", false, {"lively", "good", "great"}, {"slow", "bad", "terrible"}},
    {"humour", false, {"warm", "charming", "clever", "original"}, {"silly", "predictable", "clumsy", "annoying"}},
    {"editing", false, {"clever", "great", "lively"}, {"sloppy", "confusing", "clumsy"}},
    {"supporting cast", false, {"great", "convincing", "charming", "good"}, {"wooden", "bad", "annoying"}},
    {"leading lady", false, {"charming", "beautiful", "convincing", "great"}, {"wooden", "annoying", "shallow"}},
    {"villain", false, {"convincing", "clever", "gripping", "original"}, {"silly", "shallow", "boring", "wooden"}},
    {"{actors}", true, {"great", "convincing", "charming", "funny"}, {"wooden", "clumsy", "terrible", "annoying"}},
    {"characters", true, {"convincing", "charming", "warm", "original"}, {"shallow", "annoying", "wooden", "silly"}},
    {"{jokes}", true, {"funny", "clever", "warm", "good"}, {"silly", "predictable", "bad", "annoying"}},
    {"costumes", true, {"beautiful", "great", "original"}, {"ugly", "silly", "sloppy"}},
    {"special effects", true, {"great", "convincing", "beautiful"}, {"sloppy", "noisy", "bad", "silly"}},
    {"{scenes} with the family", true, {"warm", "moving", "funny", "charming"}, {"boring", "slow", "shallow", "clumsy"}},
};

/* The whole film: never a subject, only the place to look up {view} and {contrary}. */
static const aspect whole_film = {
    "film", false, {"good", "great", "moving", "gripping", "charming"}, {"bad", "terrible", "boring", "silly", "shallow"}};

/* ---- sentences ----
 * {family} is a word of that family; {a} is "a" or "an" by what follows. In a sentence of some
 * polarity: {np} {be} {seem} are an aspect and its verb, {adj} suits it in that polarity, {anti} in
 * the other; {np~} {be~} {adj~} are a second aspect, judged the other way; {view} and {contrary} suit a whole
 * film. */

static const char *const openers[] = {
    "I {watched} this {film} last {evening} with two {friends}.",
    "My sister and I {watched} this at the {cinema} on Saturday.",
    "I came across this {film} on television by accident.",
    "This is the third {film} by the same {director}.",
    "I {watched} it on a long flight with nothing else to do.",
    "Two {friends} told me about this {film}.",
    "I read the book years ago and never thought of {a} {film}.",
    "It took me ten years to {watch} this {film}.",
    "There are many {films} about families, and this is one of them.",
    "I bought a ticket because it was raining.",
    "The {critics} wrote a lot about this {film} when it came out.",
    "We {watched} this with a full house on the first {evening}.",
    "I {often} go to the {cinema} alone, and so I did this time.",
    "Here is one more {film} about a marriage in trouble.",
};

static const char *const plots[] = {
    "The {story} {follows} {a} {young} {writer} who {leaves} the city for {a} {quiet} {town}.",
    "It {begins} with {a} {strange} {letter} that comes twenty years too late.",
    "{a} {old} {soldier} {discovers} that his only {friend} has kept a secret.",
    "{a} {rich} {lawyer} loses his {job} and {decides} to walk home across the country.",
    "The {detective} {meets} {a} {famous} {thief} on a train to the coast.",
    "{a} {small} {child} {discovers} a door behind the wall of {a} {old} {house}.",
    "Two brothers inherit {a} {big} {house} and {quickly} begin to quarrel.",
    "{a} {young} {teacher} arrives in {a} {small} {town} where nobody speaks to her.",
    "The {doctor} {decides} to keep the {money} and {leaves} before morning.",
    "There is {a} {journey} by boat, a wedding, and {a} {letter} that changes everything.",
    "Most of it takes place in {a} {quiet} {house} at the end of {a} {road}.",
    "Then {a} {strange} {child} {meets} the {detective} in the rain.",
    "Her father was {a} {famous} {doctor}, and she wants no part of it.",
    "Halfway through, the {thief} {discovers} who sent the {letter}.",
    "They share {a} {small} flat above a bakery and {often} talk about {money}.",
    "The {journey} takes them down {a} {old} {road} along the river.",
    "It {begins} in winter, in {a} {big} city that is never named.",
    "{a} {rich} {friend} offers him {a} {job}, and he {quickly} says yes.",
    "The second half {follows} the {teacher} back to her {town}.",
    "His {friend} is {a} {writer} who has not written a line in years.",
};

/* Said plainly: for both polarities, then praise, then blame. */
static const char *const plain[] = {
    "The {np} {be} {adj}.",
    "The {np} {be} {very} {adj}.",
    "The {np} {be} {really} {adj}.",
    "I {thought} the {np} {quite} {adj}.",
    "I {thought} the {np} {adj}.",
    "The {np} {seem} {completely} {adj}.",
    "It is {a} {view} {film}.",
    "It is {a} {very} {view} {film}.",
    "I {think} the {np} {be} {adj}.",
    "For me the {np} {be} {adj}, and that says it all.",
    "Above all, the {np} {be} {adj}.",
    "The {np} {be} {adj} from the first {scene} to the last.",
    "What {a} {view} {story} this is.",
    "The leading man gives {a} {view} {performance}.",
};
static const char *const plain_praise[] = {
    "I {loved} every {minute} of it.",
    "I {enjoyed} it more than I {expected}.",
    "The {director} {tells} it {beautifully}.",
    "Every {scene} is {skilfully} made.",
    "It is {a} {joy} from start to finish.",
    "It is {a} small {masterpiece}.",
    "It made me {smile} more than once.",
    "I {admire} the {director} for this.",
    "It was {a} {joy} to {watch}.",
};
static const char *const plain_blame[] = {
    "I {hated} every {minute} of it.",
    "I {hated} it more than I {expected}.",
    "The {director} {tells} it {badly}.",
    "Every {scene} is {badly} made.",
    "It is {a} {bore} from start to finish.",
    "It is {a} complete {mess}.",
    "It made me look at my watch more than once.",
    "I was {annoyed} with the {director} for this.",
    "It was {a} {bore} to {watch}.",
};

/* Said by denying the opposite. */
static const char *const denied[] = {
    "Nobody could call the {np} {anti}.",
    "I cannot say that the {np} {be} {anti}.",
    "There is nothing {contrary} about it.",
    "It is anything but {contrary}.",
};
static const char *const denied_praise[] = {
    "There is not {a} {boring} {minute} in it.",
    "The {np} {be} never {anti}.",
    "It is never {contrary} and never {slow}.",
    "I tried to {dislike} it and could not.",
};
static const char *const denied_blame[] = {
    "There is not one {funny} {minute} in it.",
    "The {np} {be} not {anti} at all.",
    "It is not {contrary} and not even {funny}.",
    "I wanted to like it and could not.",
};

/* Both sides, the second one decides. */
static const char *const mixed[] = {
    "The {np~} {be~} {adj~}, but the {np} {be} {adj}.",
    "Although the {np~} {be~} {adj~}, the {np} {be} {adj}.",
    "The {np~} may be {adj~}, yet the {np} {be} {really} {adj}.",
    "Yes, the {np~} {be~} {quite} {adj~}, but who cares when the {np} {be} {adj}?",
    "Forget that the {np~} {be~} {adj~}: the {np} {be} {adj}.",
    "The {np} {be} {adj}, even if the {np~} {be~} {adj~}.",
};

/* What others think, or what one thought before: the opposite of the review's own view. */
static const char *const hearsay[] = {
    "The {critics} call it {contrary}, and I cannot see why.",
    "My {friends} {thought} it {contrary}, and I disagree.",
    "I {expected} {a} {contrary} {film}, and I was {completely} wrong.",
    "The poster promises {a} {contrary} {film}, which it is not.",
    "{perhaps} others will find the {np} {anti}; I did not.",
    "My brother {thought} the {np} {anti}, but then he slept through half of it.",
};

static const char *const verdict_praise[] = {
    "I {recommend} it to everyone.",
    "Do not {skip} this one.",
    "I will {watch} it again soon.",
    "{watch} it if you can.",
    "I was sorry when it was over.",
    "{perhaps} it will find the audience that it deserves.",
    "I left the {cinema} happy.",
};
static const char *const verdict_blame[] = {
    "I {recommend} it to no one.",
    "Do yourself a favour and {skip} this one.",
    "I will never {watch} it again.",
    "{watch} something else if you can.",
    "I was glad when it was over.",
    "{perhaps} it will find an audience somewhere, but I doubt it.",
    "I left the {cinema} before the end.",
};

#endif
