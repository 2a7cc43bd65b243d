def run(job):
    prepare(job)
    warm_up(job)
    launch(job, 1, retries=3)
    report(job)
