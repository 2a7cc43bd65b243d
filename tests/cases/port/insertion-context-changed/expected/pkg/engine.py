def run(job):
    prepare(job)
    warm_up(job)
    with stream(job):
        submit(job)
    report(job)
