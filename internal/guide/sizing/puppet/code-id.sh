#!/bin/sh
# Says which version of its files an environment has: Puppet Server's
# versioned-code.code-id-command. Written by fettle size puppet.
#
#   @NAME@ ENVIRONMENT
#
# The version is the name of a tree in a git repository of this script's own, of all
# that the modules have below files/, so that equal content has the same name and
# @CONTENT@ finds what was there when a catalog was made. The environment
# itself need not be in git: r10k's modules are repositories of their own, or none, and
# the commit of the environment says nothing of them.
#
# Most calls only look whether a file has another time, size or place than at the last
# one. It fails, and no catalog is compiled, where git or the store does not work: agents
# then go on with the catalog that they have.
set -eu
export LC_ALL=C
umask 027

environments=@CODE@
store=@STORE@
days=@DAYS@ # an old version is kept for so long after another has come

environment=${1-}
case $environment in
'' | *[!A-Za-z0-9_]*)
	echo "$0: '$environment' is no name of an environment" >&2
	exit 2
	;;
esac
if [ "$(id -u)" = 0 ]; then
	echo "$0: run it as the server does: runuser -u @USER@ -- $0 $environment" >&2
	exit 2
fi
cd "$environments/$environment"
mkdir -p "$store"
exec 9>"$store/$environment.lock"
flock 9

# Only what is here counts, not what a user's or the machine's configuration says.
export HOME="$store" GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
export GIT_DIR="$store/$environment.git"
if ! [ -e "$GIT_DIR/HEAD" ]; then
	git init --quiet --bare "$GIT_DIR"
fi

newline='
'
# Links are followed: the server hands out what they lead to.
files() {
	find -L ./*/*/files -name .git -prune -o ! -path "*$newline*" "$@" 2>/dev/null || :
}
look() {
	files -printf '%y %D:%i %s %C@ %p\n' | git hash-object --stdin
}
# keep has a commit of now for a tree, so that it is kept from now on for some days.
keep() {
	commit=$(GIT_AUTHOR_NAME=fettle GIT_AUTHOR_EMAIL=fettle GIT_COMMITTER_NAME=fettle GIT_COMMITTER_EMAIL=fettle \
		git commit-tree -m "$environment" "$1" </dev/null)
	git update-ref "refs/snapshots/$1" "$commit"
}
snapshot() {
	rm -rf "$GIT_DIR/new"
	mkdir "$GIT_DIR/new"
	files -type f -readable -print >"$GIT_DIR/new/paths"
	git hash-object -w --no-filters --stdin-paths <"$GIT_DIR/new/paths" >"$GIT_DIR/new/hashes" || return
	sed 's,^\./,,' "$GIT_DIR/new/paths" | paste "$GIT_DIR/new/hashes" - | sed 's/^/100644 /' | tr '\n' '\0' |
		GIT_INDEX_FILE="$GIT_DIR/new/index" git update-index -z --index-info || return
	GIT_INDEX_FILE="$GIT_DIR/new/index" git write-tree
}

now=$(look)
was= tree=
if [ -e "$GIT_DIR/seen" ]; then
	read -r was tree <"$GIT_DIR/seen" || :
fi
if [ -n "$tree" ] && [ "$was" = "$now" ]; then
	echo "$tree"
	exit
fi

# While the environment is being deployed a file may go between two looks at it.
old=$tree tree=
for attempt in 1 2 3; do
	now=$(look)
	if tree=$(snapshot) && [ "$(look)" = "$now" ]; then
		break
	fi
	if [ "$attempt" = 3 ] && [ -z "$tree" ]; then
		echo "$0: $environment changes faster than it can be read" >&2
		exit 1
	fi
	sleep 0.2
done
if [ -n "$old" ] && [ "$old" != "$tree" ]; then
	keep "$old"
fi
if [ "$old" != "$tree" ]; then
	keep "$tree"
	limit=$(($(date +%s) - days * 86400))
	git for-each-ref --format='%(committerdate:unix) %(refname)' refs/snapshots | while read -r date ref; do
		if [ "$date" -lt "$limit" ] && [ "$ref" != "refs/snapshots/$tree" ]; then
			git update-ref -d "$ref"
		fi
	done
	git gc --auto --quiet 9>&- 2>/dev/null || :
fi
# What was changed within the last seconds may change again without another time: the
# next call takes a snapshot too.
if [ -z "$(files -newerct '2 seconds ago' -print -quit)" ]; then
	echo "$now $tree" >"$GIT_DIR/seen.new"
else
	echo "- $tree" >"$GIT_DIR/seen.new"
fi
mv "$GIT_DIR/seen.new" "$GIT_DIR/seen"
rm -rf "$GIT_DIR/new"
echo "$tree"
