/* Internal functions of recipes, for layers above. */
#ifndef FV_IO_RECIPE_H
#define FV_IO_RECIPE_H

#include "fovea/recipe.h"

/* Replaces the choices of a key; its value must be one of them. Copies the text. */
fv_status fv_recipe_set_choices(fv_recipe *recipe, const char *name, const char *choices);

#endif
