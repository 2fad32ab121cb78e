/*
 * Games against independent checks: every maze is searched in full for the key and the door, every
 * fall of a ball for a paddle that is in time, pictures are compared with boards, and boards of one
 * part are looked for in the others.
 */
#include "data/games.h"
#include "support/test.h"

enum { EPISODES = 300 };

static const fv_game_kind *kind_of(const char *name)
{
    const fv_game_kind *kind = fv_game_kind_find(name);
    if (!kind) test_failed(__FILE__, __LINE__, "there is no game %s", name);
    return kind;
}

/* ---- the split ------------------------------------------------------------------------------ */

static bool same_cells(const fv_game *a, const fv_game *b)
{
    return memcmp(a->cell, b->cell, sizeof a->cell) == 0;
}

/* No board of one part occurs in another, whatever the seed. */
static void parts_share_no_board(void)
{
    static fv_game train[EPISODES], held[EPISODES];
    const fv_game_kind *kind;
    for (size_t k = 0; (kind = fv_game_kind_at(k)) != NULL; k++)
        for (int side = kind->min_side; side <= kind->max_side; side += kind->step)
            for (int part = FV_GAME_VALID; part < FV_GAME_PARTS; part++) {
                int shared = 0;
                for (int i = 0; i < EPISODES; i++) {
                    fv_game_start(&train[i], kind, side, 1, FV_GAME_TRAIN, i);
                    fv_game_start(&held[i], kind, side, 2, (fv_game_part)part, i);
                }
                for (int i = 0; i < EPISODES; i++)
                    for (int j = 0; j < EPISODES; j++)
                        shared += same_cells(&train[i], &held[j]);
                if (shared > 0)
                    test_failed(__FILE__, __LINE__, "%s of side %d: %d boards are in two parts",
                                kind->name, side, shared);
            }
}

/* Valid and test are apart, too; and a part is not one board over and over. */
static void parts_have_many_boards(void)
{
    const fv_game_kind *kind;
    for (size_t k = 0; (kind = fv_game_kind_at(k)) != NULL; k++) {
        static fv_game valid[EPISODES], test[EPISODES];
        int shared = 0, distinct = 0;
        for (int i = 0; i < EPISODES; i++) {
            fv_game_start(&valid[i], kind, 0, 1, FV_GAME_VALID, i);
            fv_game_start(&test[i], kind, 0, 1, FV_GAME_TEST, i);
        }
        for (int i = 0; i < EPISODES; i++) {
            bool is_new = true;
            for (int j = 0; j < EPISODES; j++) {
                shared += same_cells(&valid[i], &test[j]);
                if (j < i && same_cells(&test[i], &test[j])) is_new = false;
            }
            distinct += is_new;
        }
        CHECK_EQ(shared, 0);
        if (distinct < EPISODES / 2)
            test_failed(__FILE__, __LINE__, "%s: %d boards in %d episodes", kind->name, distinct,
                        EPISODES);
    }
}

static void episodes_are_functions_of_their_number(void)
{
    const fv_game_kind *kind;
    for (size_t k = 0; (kind = fv_game_kind_at(k)) != NULL; k++) {
        fv_game a, b, c, d;
        fv_game_start(&a, kind, 0, 5, FV_GAME_TRAIN, 17);
        fv_game_start(&b, kind, kind->side, 5, FV_GAME_TRAIN, 17);
        fv_game_start(&c, kind, 0, 6, FV_GAME_TRAIN, 17);
        fv_game_start(&d, kind, 0, 5, FV_GAME_TRAIN, 18);
        CHECK(same_cells(&a, &b) && memcmp(a.number, b.number, sizeof a.number) == 0);
        CHECK(!same_cells(&a, &c) || memcmp(a.number, c.number, sizeof a.number) != 0);
        CHECK(!same_cells(&a, &d) || memcmp(a.number, d.number, sizeof a.number) != 0);
    }
}

static void sides_are_bounded(void)
{
    const fv_game_kind *maze = kind_of("maze"), *ball = kind_of("catch");
    CHECK(fv_game_side_fits(maze, 0) && fv_game_side_fits(maze, 7) && fv_game_side_fits(maze, 15));
    CHECK(!fv_game_side_fits(maze, 3) && !fv_game_side_fits(maze, 8) &&
          !fv_game_side_fits(maze, 17));
    CHECK(fv_game_side_fits(ball, 4) && !fv_game_side_fits(ball, 3) &&
          !fv_game_side_fits(ball, 16));
    CHECK(!fv_game_side_fits(ball, -10) && !fv_game_kind_find("chess") && !fv_game_kind_find(NULL));
}

/* ---- mazes ---------------------------------------------------------------------------------- */

enum { MAX_CELLS = 225, AWAY = 100000 };

/* Moves from `from` to every cell, by breadth-first search over the printed board. Cells of `shut`
 * cannot be entered. */
static void distances(const char *board, int side, int from, char shut, int out[MAX_CELLS])
{
    int queue[MAX_CELLS], first = 0, end = 0;
    for (int i = 0; i < side * side; i++)
        out[i] = AWAY;
    out[from] = 0;
    queue[end++] = from;
    while (first < end) {
        const int at = queue[first++], row = at / side, column = at % side;
        const int next[4] = {row > 0 ? at - side : -1, row + 1 < side ? at + side : -1,
                             column > 0 ? at - 1 : -1, column + 1 < side ? at + 1 : -1};
        for (int k = 0; k < 4; k++)
            if (next[k] >= 0 && board[next[k]] != '#' && board[next[k]] != shut &&
                out[next[k]] == AWAY) {
                out[next[k]] = out[at] + 1;
                queue[end++] = next[k];
            }
    }
}

static int place_of(const char *board, int cells, char thing)
{
    int place = -1, count = 0;
    for (int i = 0; i < cells; i++)
        if (board[i] == thing) place = i, count++;
    CHECK_EQ(count, 1);
    return place;
}

/* The key can be reached before the door, and both within the limit. */
static void mazes_can_be_solved(void)
{
    const fv_game_kind *kind = kind_of("maze");
    for (int side = 5; side <= 15; side += 2)
        for (int part = 0; part < FV_GAME_PARTS; part++)
            for (int i = 0; i < EPISODES; i++) {
                fv_game game;
                char board[FV_GAME_BOARD];
                int way[MAX_CELLS], open = 0;
                fv_game_start(&game, kind, side, 3, (fv_game_part)part, i);
                kind->board(&game, board);
                const int agent = place_of(board, side * side, 'a'),
                          key = place_of(board, side * side, 'k'),
                          door = place_of(board, side * side, 'D');
                distances(board, side, agent, 'D', way);
                const int to_key = way[key];
                distances(board, side, key, '\0', way);
                for (int c = 0; c < side * side; c++)
                    open += board[c] != '#';
                /* (n + 1)^2 / 4 rooms, and one passage less: a tree. */
                CHECK_EQ(open, 2 * ((side + 1) / 2) * ((side + 1) / 2) - 1);
                if (side == 7 && to_key + way[door] > fv_game_facts_of(&game).limit)
                    test_failed(__FILE__, __LINE__, "maze %d needs %d moves", i,
                                to_key + way[door]);
                CHECK(to_key < AWAY && way[door] < AWAY);
                for (int c = 0; c < side * side; c++)
                    CHECK(board[c] == '#' || way[c] < AWAY); /* one piece */
            }
}

/* Moves along falling distances to `to`; the sum of the rewards. */
static double walk(fv_game *game, int to)
{
    static const int row_step[] = {-1, 0, 1, 0}, column_step[] = {0, 1, 0, -1};
    const int side = game->side;
    char board[FV_GAME_BOARD];
    int way[MAX_CELLS];
    double reward = 0;
    for (int guard = 0; guard < MAX_CELLS && game->number[0] != to; guard++) {
        game->kind->board(game, board);
        distances(board, side, to, '\0', way);
        const int at = game->number[0];
        int best = -1;
        for (int k = 0; k < 4; k++) {
            const int row = at / side + row_step[k], column = at % side + column_step[k];
            if (row < 0 || row >= side || column < 0 || column >= side) continue;
            if (way[row * side + column] < way[at]) best = k;
        }
        CHECK(best >= 0);
        reward += fv_game_move(game, best);
    }
    return reward;
}

/* The shortest way wins; its rewards are 2 less 0.01 a move. */
static void a_solved_maze_is_won(void)
{
    const fv_game_kind *kind = kind_of("maze");
    for (int i = 0; i < 50; i++) {
        fv_game game;
        char board[FV_GAME_BOARD];
        fv_game_start(&game, kind, 7, 4, FV_GAME_TRAIN, i);
        kind->board(&game, board);
        const int key = place_of(board, 49, 'k'), door = place_of(board, 49, 'D');
        double reward = walk(&game, key);
        CHECK(!game.ended);
        kind->board(&game, board);
        place_of(board, 49, 'A'); /* carries the key */
        CHECK(!memchr(board, 'k', 49));
        reward += walk(&game, door);
        CHECK(game.won && game.ended && fv_game_over(&game));
        CHECK_NEAR(reward, 2 - 0.01 * game.moves, 1e-9);
        const int moves = game.moves;
        CHECK_EQ(fv_game_move(&game, 0), 0); /* over: nothing changes */
        CHECK_EQ(game.moves, moves);
    }
}

/* The door stays shut without the key, walls hold, and the limit ends a game that is not won. */
static void doors_and_walls_hold(void)
{
    const fv_game_kind *kind = kind_of("maze");
    int tried = 0;
    for (int i = 0; i < 200; i++) {
        fv_game game;
        char board[FV_GAME_BOARD];
        int way[MAX_CELLS];
        fv_game_start(&game, kind, 7, 9, FV_GAME_TRAIN, i);
        kind->board(&game, board);
        const int door = place_of(board, 49, 'D'), key = place_of(board, 49, 'k');
        distances(board, 7, game.number[0], 'k', way);
        if (way[door] == AWAY) continue; /* the key is on the way */
        tried++;
        int beside = -1;
        for (int c = 0; c < 49; c++)
            if (way[c] == way[door] - 1 &&
                (c == door - 1 || c == door + 1 || c == door - 7 || c == door + 7))
                beside = c;
        walk(&game, beside);
        for (int action = 0; action < 4; action++)
            (void)fv_game_move(&game, action);
        CHECK(!game.won && game.number[0] != door && game.number[1] == key);
    }
    CHECK(tried > 20);
    fv_game game;
    fv_game_start(&game, kind, 7, 9, FV_GAME_TRAIN, 0);
    for (int i = 0; i < 1000; i++) {
        char board[FV_GAME_BOARD];
        const double reward = fv_game_move(&game, i % 2 ? 0 : 2);
        kind->board(&game, board);
        CHECK(game.cell[game.number[0]] == 0);
        CHECK(reward < 0 || reward > 0.9 || fv_game_over(&game));
    }
    CHECK_EQ(game.moves, fv_game_facts_of(&game).limit);
    CHECK(fv_game_over(&game) && !game.ended && !game.won);
}

/* The picture is the board around the agent: things differ in colour, equal things do not. */
static void a_window_shows_the_board(void)
{
    enum { WINDOW = 5, TILE = 3, WIDE = WINDOW * TILE };
    const fv_game_kind *kind = kind_of("maze");
    static float pixels[3][WIDE][WIDE];
    float colour[128][2][3];
    bool known[128] = {false};
    for (int i = 0; i < 60; i++) {
        fv_game game;
        char board[FV_GAME_BOARD];
        fv_game_start(&game, kind, 7, 2, FV_GAME_VALID, i);
        if (i % 2) walk(&game, game.number[1]);
        kind->board(&game, board);
        fv_game_observe(&game, &pixels[0][0][0]);
        for (int y = 0; y < WINDOW; y++)
            for (int x = 0; x < WINDOW; x++) {
                const int row = game.number[0] / 7 + y - 2, column = game.number[0] % 7 + x - 2;
                const bool inside = row >= 0 && row < 7 && column >= 0 && column < 7;
                const int thing = inside ? board[row * 7 + column] : '#';
                for (int c = 0; c < 3; c++) {
                    const float corner = pixels[c][y * TILE][x * TILE],
                                middle = pixels[c][y * TILE + 1][x * TILE + 1];
                    if (!known[thing]) colour[thing][0][c] = corner, colour[thing][1][c] = middle;
                    CHECK_EQ(colour[thing][0][c], corner);
                    CHECK_EQ(colour[thing][1][c], middle);
                }
                known[thing] = true;
            }
    }
    for (const char *a = "#.aAkD"; *a; a++)
        for (const char *b = a + 1; *b; b++)
            CHECK(memcmp(colour[(int)*a], colour[(int)*b], sizeof colour[0]) != 0);
}

/* ---- catch ---------------------------------------------------------------------------------- */

/* Whether some moves catch the ball: all places of the paddle that can be reached, row by row. */
static bool can_be_caught(const fv_game *start)
{
    const int side = start->side;
    bool here[16] = {false};
    here[start->number[0]] = true;
    for (int row = 1; row < side; row++) {
        bool next[16] = {false};
        for (int at = 1; at <= side - 2; at++)
            for (int to = at - 1; to <= at + 1; to++)
                if (here[at] && to >= 1 && to <= side - 2) next[to] = true;
        memcpy(here, next, sizeof here);
    }
    for (int at = 1; at <= side - 2; at++)
        if (here[at] && abs(at - start->cell[side - 1]) <= 1) return true;
    return false;
}

static void every_ball_can_be_caught(void)
{
    const fv_game_kind *kind = kind_of("catch");
    for (int side = kind->min_side; side <= kind->max_side; side++)
        for (int part = 0; part < FV_GAME_PARTS; part++)
            for (int i = 0; i < EPISODES; i++) {
                fv_game game;
                fv_game_start(&game, kind, side, 8, (fv_game_part)part, i);
                if (side >= 5 && !can_be_caught(&game))
                    test_failed(__FILE__, __LINE__, "side %d, ball %d cannot be caught", side, i);
                for (int row = 1; row < side; row++)
                    CHECK(abs(game.cell[row] - game.cell[row - 1]) <= 1 && game.cell[row] < side);
            }
}

/* A player who always moves towards the ball wins: nothing has to be guessed. */
static void following_the_ball_wins(void)
{
    const fv_game_kind *kind = kind_of("catch");
    int won = 0, lost = 0;
    for (int i = 0; i < EPISODES; i++) {
        fv_game game, away;
        double reward = 0;
        fv_game_start(&game, kind, 10, 8, FV_GAME_TEST, i);
        away = game;
        while (!fv_game_over(&game)) {
            char board[FV_GAME_BOARD];
            CHECK_EQ(reward, 0);
            kind->board(&game, board);
            const int ball = (int)((const char *)memchr(board, 'o', 100) - board) % 10,
                      paddle = game.number[0];
            reward += fv_game_move(&game, ball < paddle ? 0 : ball > paddle ? 2 : 1);
        }
        CHECK_EQ(game.moves, 9);
        CHECK_EQ(reward, game.won ? 1 : -1);
        won += game.won;
        while (!fv_game_over(&away))
            reward = fv_game_move(&away, 0);
        CHECK_EQ(reward, away.won ? 1 : -1);
        lost += !away.won;
    }
    CHECK_EQ(won, EPISODES);
    CHECK(lost > EPISODES / 3);
}

static void a_ball_is_four_pixels(void)
{
    const fv_game_kind *kind = kind_of("catch");
    static float pixels[20][20];
    fv_game game;
    fv_game_start(&game, kind, 10, 1, FV_GAME_TRAIN, 0);
    (void)fv_game_move(&game, 1);
    fv_game_observe(&game, &pixels[0][0]);
    for (int y = 0; y < 20; y++)
        for (int x = 0; x < 20; x++) {
            const bool ball = y / 2 == 1 && x / 2 == game.cell[1],
                       paddle = y / 2 == 9 && abs(x / 2 - game.number[0]) <= 1;
            CHECK_EQ(pixels[y][x], ball ? 1.0f : paddle ? 0.6f : 0.0f);
        }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(parts_share_no_board);
    RUN(parts_have_many_boards);
    RUN(episodes_are_functions_of_their_number);
    RUN(sides_are_bounded);
    RUN(mazes_can_be_solved);
    RUN(a_solved_maze_is_won);
    RUN(doors_and_walls_hold);
    RUN(a_window_shows_the_board);
    RUN(every_ball_can_be_caught);
    RUN(following_the_ball_wins);
    RUN(a_ball_is_four_pixels);
    return TEST_END();
}
