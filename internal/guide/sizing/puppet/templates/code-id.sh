#!/bin/sh
# Prints the version of an environment's files: Puppet Server's
# versioned-code.code-id-command. Written by fettle size puppet.
#
#   {{base .IDScript}} ENVIRONMENT
#
# The version is the name of a tree in this script's own git repository. The tree has all
# files/ of the modules, so equal content has the same name, and {{base .ContentScript}}
# finds the files as they were when a catalog was compiled. The environment itself need
# not be in git: r10k's modules are separate repositories, or none, and the commit of the
# environment does not cover them.
#
# Most calls only compare times, sizes and inodes with those of the last call. If git or
# the store does not work, it fails and no catalog is compiled: agents keep the catalog
# that they have.
set -eu
export LC_ALL=C
umask 027

environments={{shell .Server.Environments}}
store={{shell .Store}}
days={{.SnapshotDays}} # an old version is kept this long after a newer one

environment=${1-}
case $environment in
'' | *[!A-Za-z0-9_]*)
	echo "$0: '$environment' is not the name of an environment" >&2
	exit 2
	;;
esac
if [ "$(id -u)" = 0 ]; then
	echo "$0: run it as the server does: runuser -u {{.Server.User}} -- $0 $environment" >&2
	exit 2
fi
cd "$environments/$environment"
mkdir -p "$store"
exec 9>"$store/$environment.lock"
flock 9

# The configuration of git on this machine must not count.
export HOME="$store" GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
export GIT_DIR="$store/$environment.git"
if ! [ -e "$GIT_DIR/HEAD" ]; then
	git init --quiet --bare "$GIT_DIR"
fi

newline='
'
# Links are followed, as the server follows them.
files() {
	find -L ./*/*/files -name .git -prune -o ! -path "*$newline*" "$@" 2>/dev/null || :
}
look() {
	files -printf '%y %D:%i %s %C@ %p\n' | git hash-object --stdin
}
# keep commits a tree with the present time, which keeps it for some days.
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

# During a deployment a file may vanish between two calls of look.
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
# A file that changed seconds ago may change again with the same time: then the next
# call takes a snapshot too.
if [ -z "$(files -newerct '2 seconds ago' -print -quit)" ]; then
	echo "$now $tree" >"$GIT_DIR/seen.new"
else
	echo "- $tree" >"$GIT_DIR/seen.new"
fi
mv "$GIT_DIR/seen.new" "$GIT_DIR/seen"
rm -rf "$GIT_DIR/new"
echo "$tree"
