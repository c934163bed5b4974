#!/bin/bash
#SBATCH --job-name=omni-gen
#SBATCH --array=0-3
#SBATCH --gres=gpu:1
#SBATCH --signal=B:TERM@60
#SBATCH --requeue
# Four jobs, each with a part of the requests, in one folder. SIGTERM comes a minute before the time limit: finished
# outputs are written, and the job that follows goes on from there. Submit with `sbatch slurm.sh shots.jsonl`.
set -euo pipefail

exec omni-gen run "$1" --shard auto --output-dir outputs --progress plain --stop-timeout 45
