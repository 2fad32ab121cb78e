/* What the page of links adds to the drawing: a line of help, and the script that makes words and
 * heads choosable. */
#ifndef FV_LOOK_LINKS_PAGE_H
#define FV_LOOK_LINKS_PAGE_H

extern const char fv_links_page_body[], fv_links_page_script[];

#endif
