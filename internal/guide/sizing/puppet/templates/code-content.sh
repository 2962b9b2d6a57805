#!/bin/sh
# Prints a file as it was in a version of an environment: Puppet Server's
# versioned-code.code-content-command. Written by fettle size puppet.
#
#   {{base .ContentScript}} ENVIRONMENT CODE-ID PATH
#
# CODE-ID is what {{base .IDScript}} printed, PATH is below the environment's
# directory: modules/ntp/files/ntp.conf.
set -eu
export LC_ALL=C

store={{shell .Store}}

refuse() {
	echo "$0: $*" >&2
	exit 2
}
[ $# = 3 ] || refuse "want an environment, a version and a path"
case $1 in
'' | *[!A-Za-z0-9_]*) refuse "'$1' is not the name of an environment" ;;
esac
case $2 in
'' | *[!0-9a-f]*) refuse "'$2' is not a version" ;;
esac
case /$3/ in
*//* | */./* | */../*) refuse "'$3' is not a path within an environment" ;;
esac
export HOME="$store" GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_DIR="$store/$1.git"
exec git cat-file blob "$2:$3"
