/* HTML of the heads figure: the area for the enlarged head, and the script that fills it. */
#ifndef FV_LOOK_HEADS_PAGE_H
#define FV_LOOK_HEADS_PAGE_H

extern const char fv_heads_page_body[], fv_heads_page_script[];

#endif
