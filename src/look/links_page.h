/* HTML of the links figure: a line of help, and the script that selects words and heads. */
#ifndef FV_LOOK_LINKS_PAGE_H
#define FV_LOOK_LINKS_PAGE_H

extern const char fv_links_page_body[], fv_links_page_script[];

#endif
