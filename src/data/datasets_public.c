/* The public sets: what they are, whose, and the checksums of the copies that Fovea is developed
 * with. */
#include "fovea/data.h"

#include <string.h>

#define BINARY (-1)

static const fv_dataset_file banking77_files[] = {
    {"banking77/categories.json",
     "53261da888122daf2d120d925458631d9619e15d82e56052e7a42e535ce32b63", 79},
    {"banking77/test.csv.xz", "b8c7ab8eec20c73150909dd3ea37768615fba308b67b1604e69947c3d5a78824",
     3085},
    {"banking77/train.csv.xz", "e6d55eca2580e9047a33dd8c317becd8c54a83d3cb65db4bb4b2afaae9d4c05f",
     10017},
};

static const fv_dataset_file easy_vqa_files[] = {
    {"easy-vqa/answers.txt", "f004fd115e14db5f70a3a4e1b06d89fd76d45d7446a62d12b50ed1ac2a1a824c",
     13},
    {"easy-vqa/test-images-idx4-ubyte.xz",
     "994b07724acb9f8e7ddeb3fb1c055fbeabc71b2feb3fe8ec4c73a6dec2f6b105", BINARY},
    {"easy-vqa/test-questions.tsv.xz",
     "428f20827f0df6b72192de55e80ec95a3b5656c8ed504338d4379f36c990db99", 9674},
    {"easy-vqa/train-images-idx4-ubyte.xz",
     "ed2e80b796db7fe9748de5e5ab58d4bec24ee4254c02aada93be5c08df4f7012", BINARY},
    {"easy-vqa/train-questions.tsv.xz",
     "acb053b579157e35f2436a51618a24636bb361bd67427a2f378f0512b551da45", 38576},
};

static const fv_dataset_file fsdd_files[] = {
    {"fsdd/recordings.tar.xz", "2ac4fc8eb919e01d98ad10a6b7de38782ef20a61ed27250f0c8322fe9f460023",
     BINARY},
};

static const fv_dataset_file json_test_suite_files[] = {
    {"json-test-suite/json-test-suite.tar.xz",
     "b909973f3358835f1ddfa8b2629eef34b745f43fff5e1211c3b3ae4351dd89ac", BINARY},
};

static const fv_dataset_file mnist_files[] = {
    {"mnist/t10k-first3000-images-idx3-ubyte.gz",
     "edfe77fd079d8b164d7389364d2f439f15410b90e5e4fe207d1c377d68d4dc39", BINARY},
    {"mnist/t10k-first3000-labels-idx1-ubyte.gz",
     "adfa5cd6ab5c6e6ad8d535fe2b320df30afb10ceab6fd452cd3f03e4d8362e49", BINARY},
    {"mnist/train-images-idx3-ubyte.gz",
     "0b367032e93c5d0cea0925647cfdb18614af8ee15f83e6f2fc2ad904a6835971", BINARY},
    {"mnist/train-labels-idx1-ubyte.gz",
     "1787548bbe0bff1ec2ecdc0ef292b02df999e2d1a6002d27500982c652b17203", BINARY},
};

static const fv_dataset_file multi30k_files[] = {
    {"multi30k/test_2016_flickr.de.gz",
     "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8", 1000},
    {"multi30k/test_2016_flickr.en.gz",
     "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9", 1000},
    {"multi30k/test_2016_flickr.fr.gz",
     "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90", 1000},
    {"multi30k/test_2017_flickr.de.gz",
     "a2c89666db00c495cd8513b9d708d5a3acc205d7de312ef2bf5fb7ebc1540aee", 1000},
    {"multi30k/test_2017_flickr.en.gz",
     "76a444ee25172e72695cddb13ae4a3bda59430617be88e0bb46b60504f054074", 1000},
    {"multi30k/test_2017_flickr.fr.gz",
     "3ba671ceb2299f3304ffafefea7a833d08632fbaf0ba18546f8a2ec2391af496", 1000},
    {"multi30k/test_2017_mscoco.de.gz",
     "799e4854c25d601cb6cb6be29eabe5667734c61ace2f495e03e429031a0bc338", 461},
    {"multi30k/test_2017_mscoco.en.gz",
     "aab300bfb4427697987e02cd0aacd44bfe8aa50456231b6474c08038bbed2b58", 461},
    {"multi30k/test_2017_mscoco.fr.gz",
     "754f3072ba9f124569ba5258b32730fc1d214bbf8e0c6dfb2b74401676220db0", 461},
    {"multi30k/train.de.gz", "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
     29000},
    {"multi30k/train.en.gz", "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
     29000},
    {"multi30k/train.fr.gz", "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c",
     29000},
    {"multi30k/val.de.gz", "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
     1014},
    {"multi30k/val.en.gz", "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
     1014},
    {"multi30k/val.fr.gz", "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9",
     1014},
};

static const fv_dataset_file omniglot_files[] = {
    {"omniglot/background8-images-idx3-ubyte.xz",
     "22336b609956e825aea54673fa60adcf844c96332dd8c514a96180027473beb0", BINARY},
    {"omniglot/background8.tsv.xz",
     "89e11fdd41c87597f7ff516189bf46b178f5eb484ff7b22d35ea2f251219ae80", 4841},
    {"omniglot/oneshot-images-idx3-ubyte.xz",
     "6f0baed97ca66198218b6a8001904f3f78fe0c5c0495cc058d8ba98ad677a8bd", BINARY},
    {"omniglot/oneshot.tsv.xz", "4365f8b5fb2c3aecf5f7ece917fadc02528bff6f76e8dea98f67479d31eaad10",
     801},
};

static const fv_dataset_file openmoji_files[] = {
    {"openmoji/color72-images-idx4-ubyte.xz",
     "95564a78b80ae361b75c7d71b8ae363497f6810a02e579e97b6ea614412f493d", BINARY},
    {"openmoji/openmoji.tsv.xz", "039bcc1f68e4cfe4e67ffb74fac6e6c17b814593d38e97144a9ed9bb52f04f4c",
     4443},
};

static const fv_dataset_file scan_files[] = {
    {"scan/tasks_test_addprim_jump.txt.xz",
     "47c785d1bd3376dc019dfe96a3e352d2b5dee2ae69bbc6a479f97475be19a4ed", 7706},
    {"scan/tasks_test_length.txt.xz",
     "a7f026c207334196143f003e5867620ddc7c68298c3cecd8f8fb84b3944be258", 3920},
    {"scan/tasks_test_simple.txt.xz",
     "72dcd83cee065809e65cdbe063dfdc667e7ae27115ae626fc77dfc9e8f68ee26", 4182},
    {"scan/tasks_train_addprim_jump.txt.xz",
     "232b0d373bdafd48104d28df877abd31432b395b7405a730457ed1fb1ca7780c", 14670},
    {"scan/tasks_train_length.txt.xz",
     "931664732ea518a2c77207aca524f9b329d934966a76ca414ed7ac52c178e568", 16990},
    {"scan/tasks_train_simple.txt.xz",
     "2cbc70b8523594a1f5349a1b635aa30dde13c39f04c85b232d585896f8a8686e", 16728},
};

static const fv_dataset_file sotu_files[] = {
    {"sotu/sotu.txt.xz", "d7da80807a82c70aeafe2d0f48c6ef97eba301093acf4e4d4783ae9d762a1077", 22837},
};

static const fv_dataset_file tatoeba_eng_cmn_files[] = {
    {"tatoeba-eng-cmn/_about.txt",
     "5b85dfcbb46ea28459472a91281cb502cf64e2c3d26784bc8e4a0a77444aa47e", 60},
    {"tatoeba-eng-cmn/cmn.txt.xz",
     "4e055064935ed51a6d3acd0d6ffb32e6131be2ec1aacbdffdc4a6b739846dd07", 26388},
};

static const fv_dataset_file tatoeba_eng_fra_files[] = {
    {"tatoeba-eng-fra/_about.txt",
     "79f39a53dbddaf7ab43c801f231089174a611f23987244056f9e3cb5aa79358b", 60},
    {"tatoeba-eng-fra/fra.txt.xz",
     "62a66fa85205362f1043ec23087cdaca244e67c5fb82354c7e4d2d25d04ac664", 167130},
};

static const fv_dataset_file tinyshakespeare_files[] = {
    {"tinyshakespeare/input.txt.xz",
     "21b40ccf4999c004256d116655824719001352dbc22636354d9cd0c645d03a4a", 40000},
};

static const fv_dataset_file wikitext_2_files[] = {
    {"wikitext-2/test.txt.xz", "306c08b989e77ca6d5587c58d90bf8f8fa3be85671b0eda75315de9f68584fbe",
     4358},
    {"wikitext-2/valid.txt.xz", "1322771e23310248961e17b3c55df138cd3e5c57f2e36ac1d131e9c6158ccd74",
     3760},
};

#define FILES(list) .files = (list), .file_count = sizeof(list) / sizeof *(list)

static const fv_dataset sets[] = {
    {.name = "banking77",
     .about = "77 intents of bank customers' questions: 10,003 to learn from, 3,080 to test",
     .licence = "CC BY 4.0",
     .source = "github.com/PolyAI-LDN/task-specific-datasets, banking_data at 57ec275d8078",
     FILES(banking77_files)},
    {.name = "easy-vqa",
     .about = "questions about pictures of shapes: 4,000 + 1,000 pictures, 48,248 questions",
     .licence = "MIT",
     .source = "github.com/vzhou842/easy-VQA, easy_vqa/data at 3b553bb7ff42, as IDX",
     FILES(easy_vqa_files)},
    {.name = "fsdd",
     .about = "3,000 recordings of spoken digits, six speakers, 8 kHz",
     .licence = "CC BY-SA 4.0",
     .source = "github.com/Jakobovski/free-spoken-digit-dataset, recordings at 26eb9aaf76e8",
     FILES(fsdd_files)},
    {.name = "json-test-suite",
     .about = "318 JSON texts, good and bad",
     .licence = "MIT",
     .source = "github.com/nst/JSONTestSuite at 1ef36fa01286",
     FILES(json_test_suite_files)},
    {.name = "mnist",
     .about = "handwritten digits, 60,000 + 3,000",
     .licence = "CC BY-SA 3.0",
     .source = "LeCun, Cortes and Burges; by way of github.com/karpathy/convnetjs at b9683e9374fa",
     FILES(mnist_files)},
    {.name = "multi30k",
     .about = "captions in English, German and French: 29,000 lines and three test sets",
     .licence =
         "research and education only; neither the text nor weights trained on it may be passed on",
     .source = "github.com/multi30k/dataset, data/task1/raw at a3d2e0d26b56",
     FILES(multi30k_files)},
    {.name = "omniglot",
     .about = "handwritten characters of many alphabets, and the one-shot task",
     .licence = "MIT",
     .source = "github.com/brendenlake/omniglot, python at 057f034baf2e, as IDX",
     FILES(omniglot_files)},
    {.name = "openmoji",
     .about = "4,442 emoji, 72 x 72, with their names",
     .licence = "CC BY-SA 4.0; attribution: OpenMoji (openmoji.org)",
     .source = "github.com/hfg-gmuend/openmoji at d05930b34516, as IDX",
     FILES(openmoji_files)},
    {.name = "scan",
     .about = "commands and the actions they mean: simple, length and jump splits",
     .licence = "BSD",
     .source = "github.com/brendenlake/SCAN at c4b756cbc010",
     FILES(scan_files)},
    {.name = "sotu",
     .about = "State of the Union addresses from 1989 on",
     .licence = "public domain",
     .source = "github.com/nathanael-fijalkow/LLM_from_scratch, sotu.txt at 13d956c50a08",
     FILES(sotu_files)},
    {.name = "tatoeba-eng-cmn",
     .about = "26,388 English sentences with Chinese translations",
     .licence = "CC BY 2.0 FR; attribution: tatoeba.org and manythings.org/anki",
     .source = "manythings.org/anki of 2021-07-14; github.com/vivounicorn/attention-seq2seq, "
               "cmn-eng at 4baca98af513",
     FILES(tatoeba_eng_cmn_files)},
    {.name = "tatoeba-eng-fra",
     .about = "167,130 English sentences with French translations",
     .licence = "CC BY 2.0 FR; attribution: tatoeba.org and manythings.org/anki",
     .source = "manythings.org/anki of 2019-04-07; github.com/modelexlab/data, fra-eng.zip at "
               "adddaf33ac35",
     FILES(tatoeba_eng_fra_files)},
    {.name = "tinyshakespeare",
     .about = "40,000 lines of Shakespeare",
     .licence = "public domain",
     .source = "github.com/karpathy/char-rnn, data/tinyshakespeare at 6f9487a6fe5b",
     FILES(tinyshakespeare_files)},
    {.name = "wikitext-2",
     .about = "Wikipedia articles as words: the validation and test parts",
     .licence = "CC BY-SA 3.0 and GFDL",
     .source = "github.com/pytorch/examples, word_language_model/data at 77f55b912142",
     FILES(wikitext_2_files)},
};

const fv_dataset *fv_dataset_at(size_t i)
{
    return i < sizeof sets / sizeof *sets ? &sets[i] : NULL;
}

const fv_dataset *fv_dataset_find(const char *name)
{
    const fv_dataset *set;
    for (size_t i = 0; (set = fv_dataset_at(i)); i++)
        if (strcmp(set->name, name) == 0) return set;
    return NULL;
}
