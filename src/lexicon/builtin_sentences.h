/* lexicon/builtin_sentences.h - what the reviews of the built-in corpus talk about, and the
 * sentences they are made of. Private to builtin.c.
 *
 * In a sentence {family} is a word of that family, and {a} is "a" or "an" by what follows. A
 * sentence has a polarity, praise or blame: {np} {be} {seem} are an aspect and its verb, {adj}
 * suits it in that polarity and {anti} in the other; {np~} {be~} {adj~} are a second aspect, judged
 * the other way; {view} and {contrary} suit a whole film. */
#ifndef LEXICON_BUILTIN_SENTENCES_H
#define LEXICON_BUILTIN_SENTENCES_H

#include <stdbool.h>

/* What a review has an opinion on, with the families of adjectives that suit it. */
enum { SUITS_MAX = 8 };

typedef struct aspect {
    const char *name; /* a template itself */
    bool plural;
    const char *praise[SUITS_MAX], *blame[SUITS_MAX]; /* up to the first NULL */
} aspect;

static const aspect aspects[] = {
    {"acting",
     false,
     {"great", "convincing", "moving", "good"},
     {"wooden", "bad", "terrible", "clumsy"}},
    {"{story}",
     false,
     {"gripping", "moving", "original", "clever"},
     {"boring", "predictable", "silly", "confusing"}},
    {"{script}",
     false,
     {"clever", "funny", "original", "good"},
     {"bad", "predictable", "sloppy", "silly"}},
    {"{dialogue}",
     false,
     {"funny", "clever", "convincing", "lively"},
     {"wooden", "silly", "clumsy", "boring"}},
    {"{music}",
     false,
     {"beautiful", "moving", "great", "lively"},
     {"annoying", "noisy", "terrible", "predictable"}},
    {"{photography}", false, {"beautiful", "great", "original"}, {"ugly", "clumsy", "sloppy"}},
    {"{ending}",
     false,
     {"moving", "clever", "great", "gripping"},
     {"predictable", "silly", "confusing", "bad"}},
    {"{beginning}",
     false,
     {"funny", "gripping", "lively", "good"},
     {"slow", "confusing", "boring", "clumsy"}},
    {"pace", false, {"lively", "good", "great"}, {"slow", "bad", "terrible"}},
    {"humour",
     false,
     {"warm", "charming", "clever", "original"},
     {"silly", "predictable", "clumsy", "annoying"}},
    {"editing", false, {"clever", "great", "lively"}, {"sloppy", "confusing", "clumsy"}},
    {"supporting cast",
     false,
     {"great", "convincing", "charming", "good"},
     {"wooden", "bad", "annoying"}},
    {"leading lady",
     false,
     {"charming", "beautiful", "convincing", "great"},
     {"wooden", "annoying", "shallow"}},
    {"villain",
     false,
     {"convincing", "clever", "gripping", "original"},
     {"silly", "shallow", "boring", "wooden"}},
    {"{actors}",
     true,
     {"great", "convincing", "charming", "funny"},
     {"wooden", "clumsy", "terrible", "annoying"}},
    {"characters",
     true,
     {"convincing", "charming", "warm", "original"},
     {"shallow", "annoying", "wooden", "silly"}},
    {"{jokes}",
     true,
     {"funny", "clever", "warm", "good"},
     {"silly", "predictable", "bad", "annoying"}},
    {"costumes", true, {"beautiful", "great", "original"}, {"ugly", "silly", "sloppy"}},
    {"special effects",
     true,
     {"great", "convincing", "beautiful"},
     {"sloppy", "noisy", "bad", "silly"}},
    {"{scenes} with the family",
     true,
     {"warm", "moving", "funny", "charming"},
     {"boring", "slow", "shallow", "clumsy"}},
};

/* The whole film: never a subject, only the place to look up {view} and {contrary}. */
static const aspect whole_film = {"film",
                                  false,
                                  {"good", "great", "moving", "gripping", "charming"},
                                  {"bad", "terrible", "boring", "silly", "shallow"}};
/* The same in a hurry: the words that come first. */
static const aspect whole_brief = {
    "film",
    false,
    {"good", "great", "great", "moving", "funny", "clever", "beautiful", "charming"},
    {"bad", "terrible", "terrible", "boring", "boring", "silly", "annoying", "slow"}};

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

/* A point for the other side. */
static const char *const granted[] = {
    "To be fair, the {np} {be} {adj}.",      "I admit that the {np} {be} {adj}.",
    "The {np} {be} {quite} {adj}, I admit.", "The {np} {be} {adj}, but that is another matter.",
    "Some of the {scenes} are {view}.",      "Only the {np} {seem} {adj} to me.",
    "It is true that the {np} {be} {adj}.",  "The {np} {be} {adj}, as my {friends} had told me.",
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
    "I {recommend} it to everyone.", "Do not {skip} this one.",
    "I will {watch} it again soon.", "{watch} it if you can.",
    "I was sorry when it was over.", "{perhaps} it will find the audience that it deserves.",
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

/* ---- short reviews -------------------------------------------------------------------------- */

/* What a person types first: two to eight words, no evening, no plot. */
static const char *const brief[] = {
    "{view} {film}.",
    "{view}, {view} {film}.",
    "{a} {view} {film}.",
    "{a} {view} and {view} {story}.",
    "What {a} {view} {film}.",
    "It was {view}.",
    "It was {very} {view}.",
    "It is {really} {view}.",
    "This {film} is {view}.",
    "This {film} was {very} {view}.",
    "{view}, {view}, {view}.",
    "{view} and {view}.",
    "{very} {view}.",
    "{very} {view} and {view}.",
    "So {view}.",
    "I {thought} it was {view}.",
    "The {np} {be} {adj}.",
    "The {np} {be} {very} {adj}.",
    "{adj} {np}.",
    "{adj} {np}, {view} {film}.",
};
static const char *const brief_praise[] = {
    "I {loved} it.",
    "The acting is {great}.",
    "{great} acting, {great} {story}.",
    "The {story} is {clever}.",
    "{very} {funny}.",
    "{very} {funny} and {clever}.",
    "I {loved} this {film}.",
    "I {really} {loved} it.",
    "{loved} it.",
    "I {love} it.",
    "I {love} this {film}.",
    "I {enjoyed} it.",
    "I {really} {enjoyed} this {film}.",
    "We all {enjoyed} it.",
    "{best} {film} ever.",
    "The {best} {film} ever.",
    "{best} {film} ever made.",
    "Not {bad} at all.",
    "Not {bad}.",
    "It was not {bad} at all.",
    "Not {boring} at all.",
    "The {best} {film} of the year.",
    "Simply the {best}.",
    "The {best} {film} I have seen.",
    "The {best} acting in years.",
    "One of the {best} {films} ever made.",
    "{a} {masterpiece}.",
    "{a} small {masterpiece}.",
    "{a} {joy} to {watch}.",
    "I {recommend} it to everyone.",
    "I will {watch} it again.",
    "It made me {smile}.",
    "{beautifully} made.",
    "Worth every penny.",
};
static const char *const brief_blame[] = {
    "I {hated} it.",
    "The acting is {terrible}.",
    "{terrible} acting, {silly} {story}.",
    "The {story} is {silly}.",
    "{very} {boring}.",
    "{boring} and {silly}.",
    "I {hated} this {film}.",
    "I {really} {hated} it.",
    "{hated} it.",
    "I {dislike} it.",
    "I {dislike} this {film}.",
    "I did not {like} it.",
    "I did not {like} this {film}.",
    "Nobody {enjoyed} it.",
    "{worst} {film} ever.",
    "The {worst} {film} ever.",
    "{worst} {film} ever made.",
    "Not {good} at all.",
    "Not {good}.",
    "It was not {good} at all.",
    "Not {funny} at all.",
    "The {worst} {film} of the year.",
    "Simply the {worst}.",
    "The {worst} {film} I have seen.",
    "The {worst} acting in years.",
    "One of the {worst} {films} ever made.",
    "{a} {mess}.",
    "{a} complete {mess}.",
    "{a} {bore} to {watch}.",
    "I {recommend} it to no one.",
    "I will never {watch} it again.",
    "It made me look at my watch.",
    "{badly} made.",
    "What {a} waste of time.",
    "{a} waste of time and {money}.",
    "Do not waste your time.",
};
static const char *const brief_denied[] = {
    "Not {contrary}.",
    "Not {contrary} at all.",
    "It is not {contrary} at all.",
    "This {film} is not {contrary}.",
    "It was not {contrary}.",
    "It is never {contrary}.",
    "The {np} {be} not {anti}.",
};

#endif
