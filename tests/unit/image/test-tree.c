/* SPDX-License-Identifier: Apache-2.0 */
/* How layers become one tree: the rules of unpack.h about names. */
#include "layers.h"

#include "tap.h"

#include <stdlib.h>

static struct image im;

static void ends_as(const char *text, const char *what)
{
	EQ_STR(image_text(&im), text, what);
	image_end(&im);
}

static void refused(int r, enum err_kind kind, const char *text, const char *what)
{
	OK(r < 0 && im.err.kind == kind && strstr(im.err.what, text), what);
	if (r >= 0 || im.err.kind != kind || !strstr(im.err.what, text))
		printf("# got %d %s: %s\n", r, err_kind_name(im.err.kind), im.err.what);
	image_end(&im);
}

static void start(void)
{
	image_start(&im, NULL);
}

static void test_names(void)
{
	start();
	OK(LAYER(&im, FILE_("a/b/c", "x"), DIR_("a", .mode = 0700)) == 0, "implicit parents");
	ends_as("d 700 a\nd 755 a/b\nf 644 a/b/c=x\n", "are made, and take a later entry's mode");

	start();
	OK(LAYER(&im, FILE_("/abs", "1"), FILE_("./dot", "2"), FILE_("x//./y", "3"),
		   DIR_("./", .mode = 0711)) == 0,
		"absolute, dotted and doubled names");
	EQ_INT(im.tree.root->inode->attr.mode & 07777, 0711, "an entry for the root sets it");
	ends_as("f 644 abs=1\nf 644 dot=2\nd 755 x\nf 644 x/y=3\n", "are the plain ones");

	start();
	OK(LAYER(&im, FILE_("A", "1"), FILE_("a", "2"), FILE_("Ab", "3"), FILE_("a", "4")) == 0,
		"names that differ by case, and one twice");
	ends_as("f 644 A=1\nf 644 Ab=3\nf 644 a=4\n", "stay apart; the last of one name wins");

	start();
	refused(LAYER(&im, FILE_("a/../../x", "")), ERR_INVALID,
		"layer 1: entry \"a/../../x\": a name with \"..\"", "\"..\" is refused");
	start();
	refused(LAYER(&im, FILE_(".", "")), ERR_INVALID, "the root can only be a folder",
		"a file as the root");
}

static void test_replace(void)
{
	start();
	OK(LAYER(&im, DIR_("d", .mode = 0700), FILE_("d/x", "1"), SYM("s", "d"), FILE_("f", "1"),
		   DIR_("e"), FILE_("e/x", "1")) == 0,
		"a lower layer");
	OK(LAYER(&im, DIR_("d", .uid = 7), FILE_("s", "2"), DIR_("f"), FILE_("f/y", "2"),
		   SYM("e", "d")) == 0,
		"all of it with another type in the upper layer");
	EQ_INT(im.tree.dropped, 2, "two files have no name left");
	ends_as("d 755 7:0 d\nf 644 d/x=1\nl e -> d\nd 755 f\nf 644 f/y=2\nf 644 s=2\n",
		"a folder over a folder keeps its content, all else is replaced");

	start();
	OK(LAYER(&im, SYM("d", "e"), DIR_("e"), FILE_("e/x", "1")) == 0, "a link to a folder");
	OK(LAYER(&im, DIR_("d")) == 0, "and a folder of its name above");
	ends_as("d 755 d\nd 755 e\nf 644 e/x=1\n", "replace the link, not what it leads to");
}

static void test_hardlinks(void)
{
	start();
	OK(LAYER(&im, FILE_("a", "1", .mode = 0600), HARD("n/b", "a"), HARD("c", "/n/./b")) == 0,
		"hard links, also without a parent");
	ends_as("f 600 a=1 #1\nf 600 c=1 #1\nd 755 n\nf 600 n/b=1 #1\n", "are one inode");

	start();
	OK(LAYER(&im, FILE_("a", "1"), FILE_("old", "0")) == 0, "a lower layer");
	OK(LAYER(&im, HARD("b", "a"), HARD("old", "a"), WH(".wh.a")) == 0,
		"hard links to a file of a lower layer, one over a file; the target goes");
	ends_as("f 644 b=1 #1\nf 644 old=1 #1\n", "the inode stays");

	start();
	OK(LAYER(&im, FILE_("a", "1"), HARD("b", "a"), FILE_("a", "2")) == 0,
		"a target that is replaced");
	ends_as("f 644 a=2\nf 644 b=1\n", "leaves the inode to the other name");

	start();
	OK(LAYER(&im, DIR_("d"), FILE_("d/f", "1")) == 0, "a folder");
	OK(LAYER(&im, HARD("d", "d/f"), HARD("d", "d")) == 0,
		"replaced by a hard link to a file in it, then by itself");
	ends_as("f 644 d=1\n", "keeps the file");

	start();
	OK(LAYER(&im, SYM("s", "nowhere"), HARD("t", "s"),
		   {.type = '3', .name = "c", .major = 1, .minor = 3}, HARD("c2", "c")) == 0,
		"hard links to a symbolic link and a device");
	ends_as("c 644 c 1:3 #1\nc 644 c2 1:3 #1\nl s -> nowhere #2\nl t -> nowhere #2\n",
		"do not follow it");

	start();
	refused(LAYER(&im, HARD("b", "gone")), ERR_INVALID, "target is not there",
		"a target that is not there");
	start();
	refused(LAYER(&im, DIR_("d"), HARD("b", "d")), ERR_INVALID, "is a folder",
		"a folder as the target");
	start();
	refused(LAYER(&im, HARD("b", "..")), ERR_INVALID, "a name with \"..\"",
		"a hard link to ..");
	start();
	refused(LAYER(&im, FILE_("tmp/canary", ""), HARD("b", "tmp/canary/secret")), ERR_INVALID,
		"not a folder", "a target below a file");
}

static void test_whiteouts(void)
{
	start();
	OK(LAYER(&im, FILE_("a", "1"), DIR_("d"), FILE_("d/x", "1"), FILE_("k", "1")) == 0,
		"a lower layer");
	OK(LAYER(&im, WH(".wh.a"), HARD(".wh.d", "k"), WH(".wh.none"), WH("none/.wh.x")) == 0,
		"whiteouts, one stored as a hard link, some for nothing");
	ends_as("f 644 k=1\n", "hide files and folders, and make nothing");

	start();
	OK(LAYER(&im, DIR_("d", .mode = 0700), FILE_("d/x", "1"), FILE_("d/y", "1"), DIR_("d/s"),
		   FILE_("d/s/z", "1")) == 0,
		"a lower layer");
	OK(LAYER(&im, DIR_("d", .mode = 0711), FILE_("d/y", "2"), FILE_("d/s/new", "2"),
		   WH("d/.wh..wh..opq"), FILE_("d/n", "2")) == 0,
		"an opaque folder, its mark among its siblings");
	ends_as("d 711 d\nf 644 d/n=2\nd 755 d/s\nf 644 d/s/new=2\nf 644 d/y=2\n",
		"hides lower layers' content only");

	start();
	OK(LAYER(&im, DIR_("d", .mode = 0700, .uid = 5), FILE_("d/x", "1"), FILE_("f", "1")) == 0,
		"a lower layer");
	OK(LAYER(&im, FILE_("d/n", "2"), WH(".wh.d"), FILE_("f", "2"), WH(".wh.f")) == 0,
		"whiteouts of what this layer has entries for");
	ends_as("d 755 d\nf 644 d/n=2\nf 644 f=2\n", "hide the lower part of it");

	start();
	OK(LAYER(&im, WH(".wh..wh.plnk"), FILE_(".wh..wh.orph/x", "1"), FILE_("a", "1")) == 0,
		"AUFS's own files");
	ends_as("f 644 a=1\n", "are skipped");

	start();
	OK(LAYER(&im, FILE_("x", "1"), FILE_("...", "1")) == 0, "a lower layer");
	OK(LAYER(&im, WH(".wh..wh..opq")) == 0, "an opaque root");
	ends_as("", "hides all");

	static const char *const bad[] = {".wh.", ".wh..", ".wh...", "a/.wh.."};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		start();
		refused(LAYER(&im, WH(bad[i])), ERR_INVALID, "a whiteout of no name", bad[i]);
	}
	start();
	OK(LAYER(&im, FILE_("...x", "1"), FILE_(".whx", "1")) == 0, "a lower layer");
	OK(LAYER(&im, WH(".wh....x")) == 0, "a whiteout of a name that starts with dots");
	ends_as("f 644 .whx=1\n", "hides it");
	start();
	refused(LAYER(&im, FILE_(".wh.d/x", "")), ERR_INVALID, "a folder named like a whiteout",
		"an entry below a whiteout");
}

static void test_symlinks(void)
{
	start();
	OK(LAYER(&im, SYM("p", "/tmp/canary"), FILE_("p/x", "1")) == 0, "an absolute link");
	ends_as("l p -> /tmp/canary\nd 755 tmp\nd 755 tmp/canary\nf 644 tmp/canary/x=1\n",
		"leads into the image, where its target is made");

	start();
	OK(LAYER(&im, SYM("up", "../../../../etc"), FILE_("up/x", "1"), DIR_("a"),
		   SYM("a/rel", "../etc/./"), FILE_("a/rel/y", "1")) == 0,
		"links upwards");
	ends_as("d 755 a\nl a/rel -> ../etc/./\nd 755 etc\nf 644 etc/x=1\nf 644 etc/y=1\n"
		"l up -> ../../../../etc\n",
		"stop at the root");

	start();
	OK(LAYER(&im, SYM("l", "no/../where"), FILE_("l/x", "1")) == 0, "a link over nothing");
	ends_as("l l -> no/../where\nd 755 where\nf 644 where/x=1\n", "makes no more than needed");

	start();
	OK(LAYER(&im, SYM("d", "/tmp"), DIR_("tmp"), FILE_("tmp/secret", "1"),
		   FILE_("tmp/b", "1")) == 0,
		"a lower layer");
	OK(LAYER(&im, WH("d/.wh.secret")) == 0, "a whiteout through a link");
	ends_as("l d -> /tmp\nd 755 tmp\nf 644 tmp/b=1\n", "hides inside the image");

	start();
	refused(LAYER(&im, SYM("a", "b"), SYM("b", "a"), FILE_("a/x", "")), ERR_LIMIT,
		"layer 1: entry \"a/x\": more than 40 symbolic links", "a loop");
	start();
	refused(LAYER(&im, SYM("s", "s/s"), FILE_("s/x", "")), ERR_LIMIT, "symbolic links",
		"a link to itself");
	start();
	refused(LAYER(&im, FILE_("f", ""), FILE_("f/x", "")), ERR_INVALID, "\"f\" is not a folder",
		"a file as a parent");
	start();
	refused(LAYER(&im, SYM("s", "")), ERR_INVALID, "without a target", "an empty target");
}

/* Many names: the treap's order, and its removals. */
static void test_many(void)
{
	cleanup_buf struct buf b = {0};
	char name[16];
	unsigned n = 0;
	bool sorted = true;

	buf_init(&b, 64u << 20);
	for (unsigned i = 0; i < 5000; i++) {
		(void)snprintf(name, sizeof(name), "d/%u", i * 7919u % 5003u);
		put_item(&b, &(struct item){.type = '6', .name = name});
	}
	put_end(&b);
	start();
	EQ_INT(image_raw(&im, &b), 0, "5000 names in no order");
	buf_reset(&b);
	for (unsigned i = 0; i < 5000; i += 2) {
		(void)snprintf(name, sizeof(name), "d/.wh.%u", i * 7919u % 5003u);
		put_item(&b, &(struct item){.type = '0', .name = name, .text = ""});
	}
	put_end(&b);
	EQ_INT(image_raw(&im, &b), 0, "every other one hidden");
	tree_seal(&im.tree);
	const struct tree_node *d = im.tree.root->inode->children;
	for (const struct tree_node *c = d->inode->children; c; c = c->right, n++)
		if (c->right && strcmp(c->name, c->right->name) >= 0)
			sorted = false;
	EQ_INT(n, 2500, "the others stay");
	OK(sorted, "in order");
	image_end(&im);
}

int main(void)
{
	test_names();
	test_replace();
	test_hardlinks();
	test_whiteouts();
	test_symlinks();
	test_many();
	return tap_done();
}
