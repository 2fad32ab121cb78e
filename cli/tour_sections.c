/* The sections of the tour, in the order of the sources. Where a source is wrong, a section says
 * what is right; docs/corrections.md lists all of that. */
#include "tour.h"

const tour_source tour_sources[] = {
    {"S0", "Pictures of attention", "The attention chapter of the collection dl-visuals."},
    {"S1", "The article \"Attention\"",
     "From a weighted sum to heads, and what attention has to do with other layers."},
    {"S2", "Self-attention in six steps",
     "Two words, eight heads, and a comparison of three layers."},
    {"S3", "A lecture on attention",
     "From recurrent translators to Transformers with billions of parameters."},
    {"S4", "The survey \"Attention? Attention!\"",
     "A family of mechanisms, memories, pointers and pictures."},
    {0},
};

#define TRAIN_FRENCH "fovea train recipes/tatoeba-en-fr.toml -o models/tatoeba-en-fr && "

const tour_section tour_sections[] = {
    /* ---- S0 ---- */
    {"alignment", "S0", "Alignment scores, weights and the context vector",
     "A decoder's state is a query, the encoder's states are keys and values. The score says how "
     "well a query fits a key: the product of the two, so their lengths times the cosine of the "
     "angle between them. Softmax turns a row of scores into weights that sum to 1, and the "
     "context is the mean of the values with these weights. Here with vectors of two numbers: "
     "\"la\" points where \"the\" points, \"zone\" where \"zone\" does.",
     "fovea look runs/tatoeba-en-fr \"I have a black cat.\"", tour_alignment},
    {"heads", "S0", "Narrow and wide heads",
     "Narrow heads share the width: each works in d / h columns, and all of them need as many "
     "parameters as one head of full width. Wide heads have the full width each, and the matrix "
     "that joins them is h times as large. A head's sizes may also be free.",
     NULL, tour_heads},
    {"encoder", "S0", "A self-attention encoder, step by step",
     "Attention and nothing else: no recurrence, no norm, no residual path. Each word of the "
     "source "
     "is a query, a key and a value; its state is the mean of the values with its weights. Two "
     "words, vectors of two numbers.",
     "fovea train recipes/dates-attention.toml -o runs/self-encoder --model.decoder luong",
     tour_bare_encoder},
    {"decoder", "S0", "A self-attention decoder, step by step",
     "The same over the words written so far, from the start symbol on. A score for a later word "
     "is "
     "minus infinity: the first row has one word to look at, the second two. So training computes "
     "all rows at once, and writing adds one row at a time.",
     "fovea train recipes/dates-attention.toml -o runs/self-decoder --model.encoder rnn",
     tour_bare_decoder},
    {"pair", "S0", "Encoder and decoder together, step by step",
     "A third attention joins the two: queries from the decoder's states, keys and values from the "
     "encoder's. Its context and the decoder's state are what the next word is chosen from.",
     "fovea train recipes/dates-attention.toml", tour_bare_pair},

    /* ---- S1 ---- */
    {"movies", "S1", "Who likes which movie: the dot product",
     "A user and a movie are vectors of the same properties. Their product grows with both sizes, "
     "and two negative signs count for the movie: who dislikes action is pleased by its absence. "
     "Softmax over the movies gives weights; the movies mixed with these weights are the ideal "
     "movie of a user.",
     "fovea train recipes/recommender.toml -o recommender", tour_movies},
    {"basic", "S1", "Attention without parameters",
     "y_j = sum_i w_ij x_i, with the softmax of x_i . x_j as weights. A vector fits itself best "
     "where all have the same length, so each output is mostly its own input: the reason for "
     "queries, keys and values with matrices of their own.",
     NULL, tour_basic},
    {"dictionary", "S1", "A soft dictionary",
     "A dictionary returns the value of the one key that equals the query. Attention returns all "
     "values, mixed by how well their keys fit. As the temperature falls it becomes a dictionary.",
     NULL, tour_dictionary},
    {"temperature", "S1", "Why scores are divided by the root of the width",
     "A product of d independent terms of variance 1 has variance d. Without the division a "
     "softmax over wide vectors gives nearly everything to one key, and its slope vanishes; "
     "divided by sqrt(d) both stay the same for any width. (The article calls the divisor the "
     "root of the number of elements; it is the width of a key.)",
     NULL, tour_temperature},
    {"mary", "S1", "Mary and Susan",
     "Who gave the roses? What \"gave\" computes is a sum over the other words, and a sum does "
     "not know their order: exchanging the two names changes nothing. More heads do not help, "
     "since each of them is such a sum. Positions do. (The article lets heads tell the names "
     "apart.)",
     NULL, tour_mary},
    {"two-inputs", "S1", "Weights that follow the input",
     "A convolution treats every input with the same weights, which change in training only. "
     "Attention computes its weights from the input. Two inputs, measured: how strongly each "
     "output of a convolution answers to each input, and the weights of attention.",
     NULL, tour_two_inputs},
    {"calibration", "S1", "Temperature as calibration",
     "A softmax gives numbers between 0 and 1, not probabilities that come true. A small network "
     "is trained on few points until it is far too sure of itself; dividing its scores by one "
     "number, fitted on held-out points, makes its confidence match how often it is right. Its "
     "answers stay the same.",
     NULL, tour_calibration},
    {"layers", "S1", "A fully connected layer and a convolution as attention",
     "Both are multi-head attention with weights that do not depend on the input. A fully "
     "connected layer over n vectors has n heads, head h one-hot on key h: side by side they are "
     "all inputs, and W_O is the layer's matrix. A 3 x 3 convolution has nine heads, one for each "
     "offset; beyond the edge a row is empty, and an empty row is 0. (The article's A = I would "
     "be a layer for each vector alone. A softmax reaches one-hot weights only in the limit; "
     "scores of minus infinity make them exact.)",
     NULL, tour_layers},
    {"embedding", "S1", "An embedding is a matrix product",
     "A one-hot row times a matrix selects a row of it. Looking the row up does the same without "
     "the zeros.",
     NULL, tour_embedding},

    /* ---- S2 ---- */
    {"six-steps", "S2", "Self-attention in six steps, with two words",
     "1: queries, keys and values of width 64 from embeddings of width 512. 2: the score of each "
     "word for each word. 3: divided by 8, the root of 64. 4: softmax. 5: values times weights. "
     "6: their sum. (A word does not always score itself highest: that needs queries that are "
     "much like keys.)",
     NULL, tour_six_steps},
    {"eight-heads", "S2", "Eight heads",
     "Each head has matrices of its own and gives a z of width 64. Side by side they have width "
     "512, and W_O makes one matrix of them, of the shape of the input.",
     NULL, tour_eight_heads},
    {"resolution", "S2", "A mean loses what heads keep apart",
     "One head returns one mean. If two words matter equally, it does not determine their values: "
     "half of what they held is lost, and with eight words 7 / 8. As many heads as words keep "
     "them apart. Measured on random values: the best guess of each value from the heads' results.",
     NULL, tour_resolution},
    {"it", "S2", "What \"it\" looks at",
     "\"The animal didn't cross the street because it was too tired.\" In a published BERT "
     "(all-MiniLM-L6-v2), head 1 of layer 3 looks from \"it\" to \"animal\" with weight 0.64. "
     "With \"wide\" in place of \"tired\" that falls to 0.27, and \"street\" gets 0.13.",
     "fovea look all-MiniLM-L6-v2 \"The animal didn't cross the street because it was too tired\" "
     "--from it --to animal --top 5",
     NULL},
    {"cost", "S2", "Convolution, recurrence and self-attention",
     "Work, steps that have to wait for each other, and the path between the ends of a sequence. "
     "Attention needs the least steps and the shortest path; its work grows with n squared.",
     "fovea bench compare -t 1 -q", tour_cost},

    /* ---- S3 ---- */
    {"lengths", "S3", "One vector for a whole sentence",
     "A translator without attention passes the source through one vector. What if it has 1,000 "
     "steps? Here each step is a name with one of four values, and one name is asked for. The "
     "fixed vector is the state of a linear recurrent layer made for this task, the sum of name "
     "times value: it answers from sums in which more and more names overlap. A larger vector "
     "fails later. Attention keeps every step, and picks the one whose name fits.\n\n"
     "Trained, on copies of up to thirty letters: 128 numbers keep nine letters nearly always, "
     "mostly twelve, and never more than eighteen; with attention all but one of 1,500 sources "
     "are copied.",
     "fovea train recipes/copy.toml -o runs/fixed --model.decoder fixed", tour_lengths},
    {"bread", "S3", "\"We are eating bread\"",
     "The lecture translates it into Spanish; our sentence pairs are English and French.",
     TRAIN_FRENCH "fovea tour bread --models models", tour_bread},
    {"area", "S3", "The European Economic Area",
     "The alignment of the best known figure of this subject. \"European Economic Area\" is "
     "\"zone économique européenne\": the three words are in opposite orders, and in the paper's "
     "figure the map leaves its diagonal there. A small model that has never seen these words "
     "together may not show that. (The survey has another French sentence; this one is in the "
     "figure of the paper.)",
     TRAIN_FRENCH "fovea tour area --models models", tour_area},
    {"permute", "S3", "Self-attention works on sets",
     "Permuted inputs give permuted outputs: f(s(x)) = s(f(x)). A mean over the outputs does not "
     "change at all.",
     NULL, tour_permute},
    {"positions", "S3", "Positions",
     "What makes a sequence of a set: a row of a table for each position. The product of two rows "
     "of sines and cosines depends on their distance alone. (The lecture concatenates them to the "
     "input. The Transformer adds them; both are here.)",
     NULL, tour_positions},
    {"masks", "S3", "Masks",
     "A causal mask hides later words: scores of minus infinity become weights of 0. Then all "
     "steps of a training sentence can be computed at once, and still each one only knows the "
     "words before it. A padding mask hides what only fills up a batch.",
     NULL, tour_masks},
    {"mixing", "S3", "What mixes positions",
     "Of the parts of a Transformer block only attention moves anything from one position to "
     "another.",
     NULL, tour_mixing},
    {"norm", "S3", "Layer norm",
     "Each vector by itself: minus its mean, divided by its standard deviation. The lecture's "
     "sigma is the root of a sum; without the 1 / D the result has length 1 whatever the width, "
     "in place of the root of D.",
     NULL, tour_norm},
    {"gradients", "S3", "How far gradients reach",
     "Three ways of processing a sequence, before any training: the size of the gradient of the "
     "last output at each input. It shrinks with distance in recurrent networks, ends where "
     "stacked convolutions end, and does not fall in attention. (The lecture marks attention's "
     "long reach with a minus; it is a plus.)",
     NULL, tour_gradients},
    {"scaling", "S3", "The scaling table",
     "Parameters as the lecture prints them, and counted. The Transformer has 6 + 6 blocks and 8 "
     "heads; GPT-2's heads, which the lecture leaves open, are 12, 16, 20 and 25, and its "
     "published counts were too low.",
     "fovea inspect --arch all", tour_scaling},
    {"unicorns", "S3", "A prompt and its continuation",
     "A decoder continues a text token by token. The lecture shows what GPT-2's largest model "
     "makes of two sentences about unicorns. Any GPT-2 folder runs here, also a small one of our "
     "own with byte-pair tokens, trained on an encyclopedia and speeches for two minutes: its "
     "sentences have a form, but nothing to do with unicorns. One of its answers: \"The mouth has "
     "been a and to have been one of the slunspace of the stability of me. And we sound with these "
     "institution of our country in 198\".",
     "fovea train recipes/gpt2-wiki.toml && fovea run runs/gpt2-wiki -n 40 --temp 0.7 -p \"In a "
     "shocking finding, scientist discovered a herd of unicorns\"",
     NULL},

    /* ---- S4 ---- */
    {"apple", "S4", "\"She is eating a green apple\" into Chinese",
     "Chinese has no blanks between words, so the decoder writes characters.",
     "fovea train recipes/tatoeba-en-zh.toml -o models/tatoeba-en-zh && fovea tour apple --models "
     "models",
     tour_apple},
    {"scores", "S4", "The table of scores",
     "One query and four keys, under the six scores of the survey and one of a caller's own. (The "
     "survey divides the scaled one by the root of the state's width, and elsewhere of the input's "
     "length; it is the key's width. "
     "Bahdanau's s is the state before the step, the others' the current one.)",
     NULL, tour_scores},
    {"windows", "S4", "Global and local attention",
     "Global attention sees all keys. Local-m sees a window around the query's own position, "
     "local-p around a position that the model predicts, with a Gaussian that makes the position "
     "learnable. (Local attention is not hard: it is soft within its window.)",
     "fovea train recipes/dates.toml -o runs/local-p --model.decoder luong --model.score general "
     "--model.normaliser local-p --model.half_width 6",
     tour_windows},
    {"memory", "S4", "The addresses of a Neural Turing Machine",
     "By content (cosine with a strength), mixed with the address of the step before, shifted, "
     "sharpened. After each stage the weights are a distribution. (Addresses are computed from "
     "the memory as it is before this step's write.)",
     "fovea train recipes/ntm-copy.toml -o runs/ntm-copy", tour_memory},
    {"shifts", "S4", "Two ways to shift an address",
     "A softmax over the allowed shifts, or one number: the lower bound of a uniform distribution "
     "of "
     "width one, which covers two neighbouring shifts by so much. Both give a distribution again.",
     "fovea train recipes/ntm-copy.toml -o runs/ntm-copy", tour_shifts},
    {"pointer", "S4", "Pointer networks",
     "The weights over the inputs are the answer: there are as many outputs to choose from as "
     "there are inputs. The choice of step i is a softmax over inputs j; an answer of unknown "
     "length needs an end symbol.",
     "fovea train recipes/sort.toml -o sort", NULL},
    {"reach", "S4", "How far a convolution and self-attention see",
     "Stacked convolutions see a little further with each layer: (2 k + 1)^2 pixels after k layers "
     "of 3 x 3. One layer of self-attention sees the whole picture. Measured: the gradient of the "
     "middle pixel's output at every pixel.",
     NULL, tour_reach},
    {"gamma", "S4", "Self-attention in a picture starts from nothing",
     "SAGAN adds gamma times the attention to its input. gamma is 0 at first: the network begins "
     "as its plain convolutional self, to the bit, and learns how much to look around.",
     "fovea train recipes/sagan-mnist.toml", tour_gamma},
    {0},
};
