/* fovea data as its users see it. */
#include <sys/stat.h>

#include "support/files.h"
#include "support/program.h"

static void sets_are_listed(void)
{
    setenv("FOVEA_DATA", program_path("public"), 1);
    program_run("data list");
    expect(0, "tatoeba-en-fr", "");
    expect(0, "CC BY 2.0 FR; attribution: tatoeba.org", NULL);
    expect(0, "not here", NULL);
    program_run("data list --files");
    expect(0, "62a66fa85205362f1043ec23087cdaca244e67c5fb82354c7e4d2d25d04ac664", NULL);
    program_run("data list --json");
    expect(0, "{\"name\": \"dates\", \"kind\": \"made\"", "");
    expect(0, "\"name\": \"multi30k\", \"kind\": \"public\"", NULL);
    expect(0, "\"present\": 0", NULL);
    unsetenv("FOVEA_DATA");
    program_run("data list");
    expect(0, "Public sets under FOVEA_DATA", "FOVEA_DATA is not set");
}

static void a_set_is_made_and_checked(void)
{
    program_run("data make dates -o %s --count 50 --held-out 5 --seed 3", program_path("d"));
    expect(0, "50 pairs to train, 5 to validate, 5 to test", "");
    program_run("data check %s", program_path("d"));
    expect(0, "50 lines  ", "");
    program_run("data check --json %s", program_path("d"));
    expect(0, "\"ok\": true, \"sha256\": \"", "");
    program_run("data make sort -o %s --count 20 --held-out 2 --json", program_path("d/e"));
    expect(0, "\"train\": 20, \"valid\": 2, \"test\": 2", "");
    program_text("d/valid.iso", "1979-05-03\n");
    program_run("data check %s", program_path("d"));
    expect(3, "ok", "valid.iso: 1 lines, expected 5");
    program_run("data check --json %s", program_path("d"));
    expect(3, "\"ok\": false", NULL);
}

static void the_translation_set_is_made(void)
{
    mkdir(program_path("public"), 0700);
    mkdir(program_path("public/tatoeba-eng-fra"), 0700);
    program_text("public/tatoeba-eng-fra/fra.txt.xz", "Go.\tVa !\nGo.\tMarche.\nHi.\tSalut !\n");
    program_run("data make tatoeba-en-fr -o %s", program_path("t"));
    expect(4, "", "set FOVEA_DATA to the folder that holds it");
    setenv("FOVEA_DATA", program_path("public"), 1);
    program_run("data make tatoeba-en-fr -o %s", program_path("t"));
    expect(0, "2 pairs to train, 0 to validate, 1 to test", "");
    program_run("data check %s tatoeba-eng-fra", program_path("t"));
    expect(3, "train.en", "3 lines, expected 167130");
    program_run("data list --json");
    expect(0, "\"present\": 1", NULL);
    program_text("public/tatoeba-eng-fra/fra.txt.xz", "Go. Va !\n");
    program_run("data make tatoeba-en-fr -o %s", program_path("t"));
    expect(3, "", "fra.txt.xz:1: expected two texts with one tab between them");
    program_run("data check %s", program_path("t")); /* what was there is untouched */
    expect(0, "train.fr", "");
    mkdir(program_path("public/tatoeba-eng-cmn"), 0700);
    program_text("public/tatoeba-eng-cmn/cmn.txt.xz", "Go.\t去。\nHi.\t你好。\n");
    program_run("data make tatoeba-en-zh -o %s", program_path("zh"));
    expect(0, "1 pairs to train, 0 to validate, 1 to test", "");
    program_run("data check %s tatoeba-eng-cmn", program_path("zh"));
    expect(3, "train.zh", "2 lines, expected 26388");
    unsetenv("FOVEA_DATA");
}

static void texts_are_checked(void)
{
    program_text("good.txt", "one\ntwo\n");
    program_text("bad.txt", "one\ntw\xff\n");
    program_run("data check %s", program_path("good.txt"));
    expect(0, "2 lines", "");
    program_run("data check %s %s", program_path("good.txt"), program_path("bad.txt"));
    expect(3, "2 lines", "bad.txt:2: invalid UTF-8 at byte 3 of the line");
    program_run("data check %s", program_path("absent.txt"));
    expect(3, "", "absent.txt");
}

static void mistakes_are_reported(void)
{
    program_run("data");
    expect(2, "", "is missing");
    program_run("data mkae");
    expect(2, "", "'mkae' is not one of list|make|check; did you mean 'make'?");
    program_run("data make");
    expect(2, "", "make: the name of a set is missing");
    program_run("data make dats");
    expect(2, "", "data: make: there is no set 'dats'; did you mean 'dates'?");
    program_run("data list now");
    expect(2, "", "unexpected word 'now'");
    program_run("data check");
    expect(2, "", "expected a set, folder or file");
    program_run("data check multi30k");
    expect(4, "", "set FOVEA_DATA");
    program_run("data make copy -o %s --length 1", program_path("few"));
    expect(1, "", "too few different sequences of up to 1 symbols");
    program_run("data make copy -o /proc/none");
    expect(1, "", "/proc/none: cannot create the folder");
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    program_needed();
    RUN(sets_are_listed);
    RUN(a_set_is_made_and_checked);
    RUN(the_translation_set_is_made);
    RUN(texts_are_checked);
    RUN(mistakes_are_reported);
    program_end();
    return TEST_END();
}
